"""What is imitated is what the model will read, for every kind of environment."""

import json

import gymnasium as gym
import pytest

import llm_gym  # noqa: F401 - registers the suite
from llm_gym.as_text import make_text
from llm_gym.envs.micro.echo import EchoEnv
from llm_gym.errors import ConfigError
from llm_gym.wrappers import ToolUse
from llm_gym_agents.learn.imitation import (
    DialogueEncoder,
    find_player,
    load_demonstrations,
    play_demonstrations,
)
from llm_gym_agents.text.chat import ChatFormat, TokenConversation
from tests.agents.small_run import Odd
from tests.agents.tiny import tiny_tokenizer

CHAT = ChatFormat.from_tokenizer(tiny_tokenizer())
OBSERVATION, HISTORY = DialogueEncoder(CHAT, "observation"), DialogueEncoder(CHAT, "history")
FORMATS = ("plain", "tag", "boxed", "json", "react")


def replies(talks):
    return [CHAT.text_of(turn.reply_ids) for talk in talks for turn in talk]


def moves(env, talks):
    """Play what was said again; return whether each reply could be used."""
    usable, said = [], iter(replies(talks))
    seed = 0
    while True:
        env.reset(seed=seed)
        seed, done = seed + 1, False
        while not done:
            reply = next(said, None)
            if reply is None:
                return usable
            *_, terminated, truncated, info = env.step(reply)
            usable.append(info["valid_action"])
            done = terminated or truncated


@pytest.mark.parametrize("action_format", FORMATS)
def test_random_moves_are_legal_ones_in_the_format_of_the_game(action_format):
    env = gym.make("llm_gym/Echo-v0", action_format=action_format)
    talks = play_demonstrations(env, "random", OBSERVATION, 12)
    assert len(talks) == 12
    assert moves(env, talks) == [True] * 12


@pytest.mark.parametrize("action_format", ["plain", "tag"])
def test_an_environment_of_others_is_imitated_in_the_words_of_its_phrasebook(action_format):
    env = make_text("FrozenLake-v1", is_slippery=False, action_format=action_format)
    talks = play_demonstrations(env, "random", OBSERVATION, 30)
    assert moves(env, talks) == [True] * 30
    assert any("right" in reply for reply in replies(talks))


def test_with_the_history_a_conversation_is_what_the_policy_would_have_read():
    env = gym.make("llm_gym/GuessTheNumber-v0", rules="system")
    [talk] = play_demonstrations(env, "solver", HISTORY, 3, seed=1)
    bare = env.unwrapped
    observation, info = env.reset(seed=1)
    live = TokenConversation(CHAT)
    assert len(talk) > 1
    for at, turn in enumerate(talk):
        heard = (
            live.add_observation(observation)
            if at
            else live.start(info["system_prompt"], observation)
        )
        assert turn.prompt_ids == heard
        move = bare.solver_action()
        assert turn.reply_ids == CHAT.reply(move)
        live.add_reply(turn.reply_ids)
        observation, *_ = env.step(move)


def test_with_the_history_as_many_turns_as_asked_for():
    env = gym.make("llm_gym/Echo-v0", max_turns=4)
    assert [len(talk) for talk in play_demonstrations(env, "random", HISTORY, 6)] == [4, 2]


def test_a_conversation_that_the_context_does_not_hold_is_cut_at_a_turn():
    env = gym.make("llm_gym/Echo-v0", max_turns=4, rules="system")
    [whole] = play_demonstrations(env, "random", DialogueEncoder(CHAT, "history", ""), 4)
    sizes = [len(turn.prompt_ids) + len(turn.reply_ids) for turn in whole]
    limit = sizes[0] + sizes[1] + sizes[2] - 1
    [cut] = play_demonstrations(env, "random", DialogueEncoder(CHAT, "history", "", limit), 4)
    assert cut == whole[:2]
    with pytest.raises(ConfigError, match="fits a context of 3 tokens"):
        play_demonstrations(env, "random", DialogueEncoder(CHAT, "history", "", 3), 4)


class Unsolved(EchoEnv):
    """Has an oracle and no solver."""

    @staticmethod
    def solve(observations, moves):
        raise NotImplementedError("nobody has thought about it")


def test_an_oracle_stands_in_where_there_is_no_solver():
    env = Unsolved()
    assert find_player(env, "solver")(env.reset(seed=0)[0]) == env.oracle_action()


def test_no_player_at_all_is_one_sentence():
    env = make_text("FrozenLake-v1", is_slippery=False)
    observation, _ = env.reset(seed=0)
    with pytest.raises(ConfigError, match="has no solver player to imitate"):
        find_player(env, "solver")(observation)


def test_a_random_player_with_tools_writes_calls_that_they_take():
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


@pytest.mark.parametrize("env_id", ["llm_gym/SearchQA-v0", "llm_gym/TextToSQLEasy-v0"])
def test_a_game_of_tools_is_imitated_by_calls_that_can_be_used(env_id):
    env = gym.make(env_id)
    usable = moves(env, play_demonstrations(env, "random", OBSERVATION, 20))
    assert sum(usable) >= 18


def test_a_player_that_nobody_brings_along_is_one_sentence():
    with pytest.raises(ConfigError, match="brings no random player along"):
        find_player(Odd(), "random")


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
    "text", ["no json", '{"message": []}', '{"messages": [{"role": "user"}]}', '{"messages": 3}']
)
def test_a_line_that_is_no_conversation_is_named(tmp_path, text):
    place = tmp_path / "talks.jsonl"
    place.write_text(text + "\n")
    with pytest.raises(ConfigError, match="line 1 of"):
        load_demonstrations(place, HISTORY)


def test_a_file_without_replies_is_refused(tmp_path):
    place = tmp_path / "talks.jsonl"
    place.write_text("")
    with pytest.raises(ConfigError, match="holds no reply"):
        load_demonstrations(place, HISTORY)
    with pytest.raises(ConfigError, match="cannot read"):
        load_demonstrations(tmp_path / "nowhere", HISTORY)
