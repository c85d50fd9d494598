"""What is imitated is what the model will read; imitation teaches the language of a game."""

import copy
import itertools
import json
from functools import partial
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym.core.spaces import AnyText
from llm_gym.envs.micro.echo import EchoEnv
from llm_gym.episodes import Trajectory
from llm_gym.wrappers import ToolUse
from llm_gym.wrappers.as_text import make_text
from llm_gym_agents.learn import imitation
from llm_gym_agents.learn.imitation import (
    DialogueEncoder,
    Example,
    best_episodes,
    find_player,
    imitate,
    label_episode,
    load_demonstrations,
    play_demonstrations,
)
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import SequencePacker
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EpisodeTask, Turn
from llm_gym_agents.text.chat import ChatFormat, TokenConversation
from llm_gym_agents.text.tokenizers import collect_vocabulary, word_tokenizer
from llm_gym_agents.trainer.build import build_engine, build_policy
from tests.agents.players import player_at_chance
from tests.agents.small_run import Odd, config_with
from tests.agents.tiny import tiny_tokenizer

ECHO, GAME = "llm_gym/Echo-v0", "llm_gym/TextGameEasy-v0"


def make(env_id=ECHO, **settings):
    env = gym.make(env_id, rules="system", **settings).unwrapped
    _, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
    return env, tokenizer, ChatFormat.from_tokenizer(tokenizer)


def pupil(**how):
    """Return a model that knows the words of Echo, after 0 steps or as many as usual."""
    lm, _ = player_at_chance(ECHO, words=4, max_turns=2, **how)
    return PolicyValueModel(copy.deepcopy(lm).eval(), critic="none")


def turns_of(env, chat, turns, player="random", system_prompt="", **how):
    encoder = DialogueEncoder(chat, "observation", system_prompt)
    return play_demonstrations(env, player, encoder, turns, **how)


def test_the_system_prompt_is_the_rules_unless_another_is_given():
    env, _, chat = make()
    observation, info = env.reset(seed=0)
    [[own]] = turns_of(env, chat, 1, system_prompt=None)
    [[other]] = turns_of(env, chat, 1, system_prompt="Say red.")
    assert own.prompt_ids == chat.opening(info["system_prompt"], observation)
    assert other.prompt_ids == chat.opening("Say red.", observation)


def test_demonstrations_have_the_requested_turns_over_rising_seeds():
    env, _, chat = make(max_turns=2)
    found = turns_of(env, chat, 5, "solver")
    expected = []
    for seed in range(3):
        observation, _ = env.reset(seed=seed)
        for _ in range(2):
            move = env.oracle_action()
            expected.append((Example(chat.opening("", observation), chat.reply(move)),))
            observation, *_ = env.step(move)
    assert found == expected[:5]


def test_demonstrations_come_from_the_requested_split():
    env = gym.make(GAME, rules="system").unwrapped
    chat = ChatFormat.from_tokenizer(word_tokenizer(collect_vocabulary([GAME], episodes=10)))
    for split in ("train", "test"):
        observation, _ = env.reset(seed=3, options={"split": split})
        [[example]] = turns_of(env, chat, 1, seed=3, split=split)
        assert example.prompt_ids == chat.opening("", observation)


def test_the_loss_is_the_mean_log_probability_of_the_replies():
    env, _, chat = make()
    model = pupil()
    [[example]] = turns_of(env, chat, 1)
    ids, begin = torch.tensor([example.prompt_ids + example.reply_ids]), len(example.prompt_ids)
    with torch.no_grad():
        log_probs = model.lm(input_ids=ids).logits[0].log_softmax(-1)
    expected = -sum(log_probs[at - 1, ids[0, at]] for at in range(begin, ids.shape[1])) / 2
    [loss] = imitate(model, [example], steps=1, batch_size=3)
    assert loss == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize(("batch_tokens", "read"), [(None, 16), (10**6, 16), (80, 8), (5, 1)])
def test_long_turns_make_smaller_batches(batch_tokens, read, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        imitation, "_backward", lambda model, batch, most: sizes.append(len(batch)) or 0.0
    )
    turns = [Example([1] * 8, [2] * 2)] * 3  # ten ids each
    imitate(pupil(steps=0), turns, steps=1, batch_size=16, batch_tokens=batch_tokens)
    assert sizes == [read]


def test_imitation_depends_on_the_seed():
    env, _, chat = make()
    turns = turns_of(env, chat, 64)
    first, again, other = (imitate(pupil(steps=0), turns, steps=3, seed=seed) for seed in (0, 0, 1))
    assert first == again != other


def test_the_learning_rate_falls_linearly(monkeypatch):
    env, _, chat = make()
    rates = []

    class Optimizer(torch.optim.SGD):
        def __init__(self, weights, lr, **_):
            super().__init__(weights, lr=lr)

        def step(self, closure=None):
            rates.append(self.param_groups[0]["lr"])

    monkeypatch.setattr(torch.optim, "AdamW", Optimizer)
    turns = turns_of(env, chat, 4)
    imitate(pupil(), turns, steps=4, learning_rate=8.0, ramp=1, decay=(0.5, 0.0))
    assert rates == [4.0, 3.0, 2.0, 1.0]


def play(lm, tokenizer, episodes=256):
    """Return the mean return of episodes on Echo, and the share of moves that could be used."""
    config = config_with(
        inference__max_tokens=2, inference__system_prompt="", inference__context="observation"
    )
    policy = build_policy(config, build_engine(config, lm, tokenizer), tokenizer)
    pool = TextEnvPool(ECHO, 64, rules="system", words=4, max_turns=2)
    collector = EpisodeCollector(pool, policy)
    tasks = [EpisodeTask(at, 1_000 + at) for at in range(episodes)]
    played = collector.collect(tasks).all_episodes
    collector.close()
    usable = [info["valid_action"] for episode in played for info in episode.infos]
    return np.mean([episode.total_reward for episode in played]), np.mean(usable)


def test_imitating_random_moves_teaches_the_format_and_stays_at_chance():
    mean, usable = play(*player_at_chance(ECHO, words=4, max_turns=2))
    assert usable > 0.9
    assert 0.15 < mean < 0.35  # chance is 1 word in 4


def test_imitating_a_solver_teaches_to_play():
    env, tokenizer, chat = make(words=4, max_turns=2)
    turns, model = turns_of(env, chat, 256, "solver"), pupil(steps=0)
    imitate(model, turns, steps=60, batch_size=64, learning_rate=5e-3)
    assert play(model.lm, tokenizer)[0] > 0.9


def test_the_best_random_episodes_teach_to_play():
    env, tokenizer, chat = make(words=4, max_turns=2)
    turns, model = turns_of(env, chat, 256, "best_random"), pupil(steps=0)
    imitate(model, turns, steps=60, batch_size=64, learning_rate=5e-3)
    assert play(model.lm, tokenizer)[0] > 0.9


def finished(number, *, won=False, reward=0.0, turns=2):
    """Return an episode of ``turns`` turns whose id is ``number``."""
    rewards = [0.0] * (turns - 1) + [reward]
    record = Trajectory(states=["?"] * turns, actions=["!"] * turns, rewards=rewards)
    record.episode_id, record.success = number, won
    return record


@pytest.mark.parametrize(
    ("won", "rewards", "turns", "kept"),
    [
        ({1, 3}, [0, 0, 9, 0, 0], 4, {1, 3}),  # the won ones, until there are enough
        ({3}, [0, 9, 0, 0, 5], 6, {3}),  # one in three wanted turns is won: no other
        (set(), [0, 9, 0, 7, 5], 6, {1, 3, 4}),  # none is won: the highest returns
        ({0}, [0, 9, 0, 7, 5], 21, {0, 1, 2, 3, 4}),  # hardly any: these as well
        (set(), [1, 1, 1, 1, 1], 4, {0, 1}),  # equals: the first ones
    ],
)
def test_of_many_random_episodes_the_best_are_kept(won, rewards, turns, kept):
    episodes = [finished(at, won=at in won, reward=each) for at, each in enumerate(rewards)]
    found = best_episodes(iter(episodes), turns)
    assert {each.episode_id for each in found} == kept


def test_a_search_for_won_episodes_ends(monkeypatch):
    monkeypatch.setattr(imitation, "SEARCHED", 100)
    played = []
    endless = (played.append(at) or finished(at) for at in itertools.count())
    assert len(best_episodes(endless, 8)) == 4
    assert len(played) == 9  # an episode costs its two turns, and ten more


@pytest.mark.parametrize(
    ("reply", "label", "learned"),
    [
        ([5, 6, 9], None, [5, 6, 9]),
        ([5, 6, 9], [5, 6, 9], [5, 6, 9]),
        ([5, 6, 9], [5, 7, 8, 9], [5, 7]),
        ([5, 6, 9], [7, 9], [7]),
        ([5], [5, 6, 9], [5, 6]),
    ],
)
def test_a_label_is_learned_up_to_the_first_difference(reply, label, learned):
    assert Example([1], reply, label).learned_ids == learned


def test_the_reply_is_read_and_its_label_is_learned():
    packed = SequencePacker()
    packed.read([1, 2], new_sequence=True)
    packed.learn([5, 6], [5, 7])
    packed.read([3])
    assert packed.ids == [1, 2, 5, 6, 3]
    assert (packed.positions, packed.tokens, packed.lengths) == ([1, 2], [5, 7], [5])


class Forward(gym.Env):
    """Shows a position; the solver goes to 3."""

    action_space, observation_space = AnyText(9), AnyText(99)
    start = 0

    def reset(self, *, seed=None, options=None):
        self.at = self.start
        return str(self.at), {}

    def step(self, action):
        self.at += {"up": 1, "down": -1}.get(action, 0)
        return str(self.at), 0.0, self.at == 3, False, {}

    def solver_action(self):
        return "up" if self.at < 3 else "down"


def visited(words, *, context="observation", env=None):
    """Return the labelled dialogues of an episode with these replies."""
    game, states, turns = Forward(), [], []
    observation, _ = game.reset()
    for at, word in enumerate(words):
        states.append(observation)
        new = context == "observation" or at == 0
        turns.append(
            Turn(0, at, CHAT.opening("", observation), CHAT.reply(word), [], "stop", 0, new)
        )
        observation, *_ = game.step(word)
    episode = SimpleNamespace(states=states, actions=words)
    return list(label_episode(env or Forward(), "solver", episode, turns, CHAT, 0))


def test_each_visited_state_is_labelled_if_it_can_be_reached_again():
    talks = visited(["down", "up", "nonsense", "up"])
    assert [[CHAT.text_of(turn.learned_ids) for turn in talk] for talk in talks] == [["up"]] * 4
    other = Forward()
    other.start = 2
    assert visited(["down", "up"], env=other) == []


def test_in_a_conversation_the_reply_is_read_and_the_label_learned():
    [talk] = visited(["down", "up", "up"], context="history")
    first, second, last = talk
    assert first.reply_ids == CHAT.reply("down")
    assert first.learned_ids == CHAT.reply("up")[:1]
    assert second.learned_ids == second.reply_ids == CHAT.reply("up")
    assert last == Example(last.prompt_ids, CHAT.reply("up"))


CHAT = ChatFormat.from_tokenizer(tiny_tokenizer())
OBSERVATION, HISTORY = DialogueEncoder(CHAT, "observation"), DialogueEncoder(CHAT, "history")
FORMATS = ("plain", "tag", "boxed", "json", "react")


def replies(talks):
    return [CHAT.text_of(turn.reply_ids) for talk in talks for turn in talk]


def moves(env, talks):
    """Play the replies; return whether each could be used."""
    usable, left = [], iter(replies(talks))
    seed = 0
    while True:
        env.reset(seed=seed)
        seed, done = seed + 1, False
        while not done:
            reply = next(left, None)
            if reply is None:
                return usable
            *_, terminated, truncated, info = env.step(reply)
            usable.append(info["valid_action"])
            done = terminated or truncated


LAKE = partial(make_text, "FrozenLake-v1", is_slippery=False)  # with words for its moves


@pytest.mark.parametrize(
    ("made", "turns", "least", "words"),
    [
        *((partial(gym.make, ECHO, action_format=each), 12, 12, "") for each in FORMATS),
        *((partial(LAKE, action_format=each), 30, 30, "right") for each in ("plain", "tag")),
        (partial(gym.make, "llm_gym/SearchQA-v0"), 20, 18, ""),  # calls of tools
        (partial(gym.make, "llm_gym/TextToSQLEasy-v0"), 20, 18, ""),
    ],
)
def test_random_moves_are_legal_ones_in_the_format_of_the_game(made, turns, least, words):
    env = made()
    talks = play_demonstrations(env, "random", OBSERVATION, turns)
    assert sum(moves(env, talks)) >= least
    assert len(moves(env, talks)) == turns
    assert any(words in reply for reply in replies(talks))


def test_a_demonstration_with_history_has_the_prompts_of_the_policy():
    env = gym.make("llm_gym/GuessTheNumber-v0", rules="system")
    [talk] = play_demonstrations(env, "solver", HISTORY, 3, seed=1)
    bare = env.unwrapped
    observation, info = env.reset(seed=1)
    live = TokenConversation(CHAT)
    assert len(talk) > 1
    for turn in talk:
        assert turn.prompt_ids == live.read(info["system_prompt"], observation)
        move = bare.solver_action()
        assert turn.reply_ids == CHAT.reply(move)
        live.add_reply(turn.reply_ids)
        observation, *_ = env.step(move)


def test_a_conversation_that_the_context_does_not_hold_is_cut_at_a_turn():
    env = gym.make("llm_gym/Echo-v0", max_turns=4, rules="system")
    [whole] = play_demonstrations(env, "random", DialogueEncoder(CHAT, "history", ""), 4)
    sizes = [len(turn.prompt_ids) + len(turn.reply_ids) for turn in whole]
    limit = sizes[0] + sizes[1] + sizes[2] - 1
    [cut] = play_demonstrations(env, "random", DialogueEncoder(CHAT, "history", "", limit), 4)
    assert cut == whole[:2]
    assert [len(talk) for talk in play_demonstrations(env, "random", HISTORY, 6)] == [4, 2]
    with pytest.raises(ConfigError, match="3 tokens"):
        play_demonstrations(env, "random", DialogueEncoder(CHAT, "history", "", 3), 4)


class Unsolved(EchoEnv):
    """Has an oracle and no solver."""

    @staticmethod
    def solve(observations, moves):
        raise NotImplementedError("nobody has thought about it")


def test_an_oracle_replaces_a_missing_solver_and_no_player_is_an_error():
    env = Unsolved()
    assert find_player(env, "solver")(env.reset(seed=0)[0]) == env.oracle_action()
    pendulum = make_text("Pendulum-v1")
    observation, _ = pendulum.reset(seed=0)
    with pytest.raises(ConfigError, match="solver"):
        find_player(pendulum, "solver")(observation)
    with pytest.raises(ConfigError, match="random"):
        find_player(Odd(), "random")


def test_a_random_player_writes_valid_tool_calls():
    def half(number: int) -> int:
        """Halve a number, rounding down.

        Args:
            number: The number.
        """
        return number // 2

    for parser in ("hermes", "react"):
        env = ToolUse(gym.make("llm_gym/GuessTheNumber-v0"), [half], parser, max_calls=None)
        talks = play_demonstrations(env, "random", OBSERVATION, 40)
        env.reset(seed=0)
        calls = []
        for reply in replies(talks):
            *_, terminated, truncated, info = env.step(reply)
            calls += info["tool_calls"]
            if terminated or truncated:
                env.reset(seed=0)
        assert len(calls) > 5, parser
        assert all(call["success"] for call in calls), parser


def test_a_file_of_conversations_gives_its_replies(tmp_path):
    messages = [
        {"role": "system", "content": "Be quick."},
        {"role": "user", "content": "Say red."},
        {"role": "assistant", "content": "red"},
        {"role": "user", "content": "Say blue."},
        {"role": "assistant", "content": "blue"},
    ]
    place = tmp_path / "talks.jsonl"
    place.write_text(json.dumps({"messages": messages}) + "\n\n")
    [talk] = load_demonstrations(place, HISTORY)
    assert talk[0].prompt_ids == CHAT.opening("Be quick.", "Say red.")
    assert talk[1].prompt_ids == CHAT.following(talk[0].reply_ids, "Say blue.")
    first, second = load_demonstrations(place, OBSERVATION)
    assert second[0].prompt_ids == CHAT.opening("Be quick.", "Say blue.")
    assert replies([first, second]) == ["red", "blue"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("no json\n", "line 1"),
        ('{"message": []}\n', "line 1"),
        ('{"messages": [{"role": "user"}]}\n', "line 1"),
        ('{"messages": 3}\n', "line 1"),
        ("", "no reply"),
    ],
)
def test_a_file_that_holds_no_conversation_is_refused(tmp_path, text, what):
    (tmp_path / "talks.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=what):
        load_demonstrations(tmp_path / "talks.jsonl", HISTORY)
    with pytest.raises(ConfigError, match="nowhere"):
        load_demonstrations(tmp_path / "nowhere", HISTORY)
