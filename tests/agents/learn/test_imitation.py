"""A warm start teaches the language of a game, and nothing about playing it."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.build import build_engine, build_policy
from llm_gym_agents.learn.imitation import DialogueEncoder, imitate, play_demonstrations
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.sampler import EpisodeCollector
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.tokenizers import collect_vocabulary, word_tokenizer
from tests.agents.players import player_at_chance

ECHO, GAME = "llm_gym/Echo-v0", "llm_gym/TextGameEasy-v0"


def make(env_id=ECHO, **settings):
    env = gym.make(env_id, rules="system", **settings).unwrapped
    _, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
    return env, tokenizer, ChatFormat.from_tokenizer(tokenizer)


def turns_of(env, chat, turns, player="random", system_prompt="", **how):
    encoder = DialogueEncoder(chat, "observation", system_prompt)
    return play_demonstrations(env, player, encoder, turns, **how)


def test_rules_are_told_unless_something_else_is():
    env, _, chat = make()
    observation, info = env.reset(seed=0)
    [[own]] = turns_of(env, chat, 1, system_prompt=None)
    [[other]] = turns_of(env, chat, 1, system_prompt="Say red.")
    assert own.prompt_ids == chat.opening(info["system_prompt"], observation)
    assert other.prompt_ids == chat.opening("Say red.", observation)


def test_as_many_turns_as_asked_for_over_episodes_of_rising_seeds():
    env, _, chat = make(max_turns=2)
    found = turns_of(env, chat, 5, "solver")
    expected = []
    for seed in range(3):
        observation, _ = env.reset(seed=seed)
        for _ in range(2):
            move = env.oracle_action()
            expected.append(((chat.opening("", observation), chat.reply(move)),))
            observation, *_ = env.step(move)
    assert found == expected[:5]


def test_examples_come_from_the_split_that_was_asked_for():
    env = gym.make(GAME, rules="system").unwrapped
    chat = ChatFormat.from_tokenizer(word_tokenizer(collect_vocabulary([GAME], episodes=10)))
    for split in ("train", "test"):
        observation, _ = env.reset(seed=3, options={"split": split})
        [[example]] = turns_of(env, chat, 1, seed=3, split=split)
        assert example.prompt_ids == chat.opening("", observation)


def test_the_loss_falls_to_what_chance_leaves():
    env, _, chat = make(words=4, max_turns=2)
    lm, _ = player_at_chance(ECHO, words=4, max_turns=2, steps=0)
    turns = turns_of(env, chat, 256)
    model = PolicyValueModel(copy.deepcopy(lm), critic="none")
    losses = imitate(model, turns, steps=40, batch_size=64, learning_rate=5e-3)
    # Of two tokens one is a word out of four and the other the end.
    floor = np.log(4) / 2
    assert losses[0] > 1.5
    assert floor - 0.05 < np.mean(losses[-5:]) < floor + 0.1


def test_the_loss_is_the_mean_log_probability_of_the_replies():
    env, _, chat = make()
    lm, _ = player_at_chance(ECHO, words=4, max_turns=2)
    lm = copy.deepcopy(lm).eval()
    [[example]] = turns_of(env, chat, 1)
    ids, begin = torch.tensor([example.prompt_ids + example.reply_ids]), len(example.prompt_ids)
    with torch.no_grad():
        log_probs = lm(input_ids=ids).logits[0].log_softmax(-1)
    expected = -sum(log_probs[at - 1, ids[0, at]] for at in range(begin, ids.shape[1])) / 2
    [loss] = imitate(PolicyValueModel(lm, critic="none"), [example], steps=1, batch_size=3)
    assert loss == pytest.approx(float(expected), abs=1e-5)


def test_the_same_seed_teaches_the_same():
    env, _, chat = make()
    lm, _ = player_at_chance(ECHO, words=4, max_turns=2, steps=0)
    turns = turns_of(env, chat, 64)
    first, again, other = (
        imitate(PolicyValueModel(copy.deepcopy(lm), critic="none"), turns, steps=3, seed=seed)
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_the_rate_falls_by_a_line(monkeypatch):
    env, _, chat = make()
    rates = []

    class Optimizer(torch.optim.SGD):
        def __init__(self, weights, lr):
            super().__init__(weights, lr=lr)

        def step(self, closure=None):
            rates.append(self.param_groups[0]["lr"])

    monkeypatch.setattr(torch.optim, "AdamW", Optimizer)
    lm, _ = player_at_chance(ECHO, words=4, max_turns=2)
    turns = turns_of(env, chat, 4)
    model = PolicyValueModel(lm, critic="none")
    imitate(model, turns, steps=4, learning_rate=8.0, ramp=1, decay=(0.5, 0.0))
    assert rates == [4.0, 3.0, 2.0, 1.0]


def play(lm, tokenizer, episodes=256):
    """Return the mean return of episodes on Echo, and the share of moves that could be used."""
    config = ConfigStore()
    config.inference.max_tokens, config.inference.system_prompt = 2, ""
    config.inference.context = "observation"
    policy = build_policy(config, build_engine(config, lm, tokenizer), tokenizer)
    pool = TextEnvPool(ECHO, 64, rules="system", words=4, max_turns=2)
    collector = EpisodeCollector(pool, policy)
    tasks = [EpisodeTask(at, 1_000 + at) for at in range(episodes)]
    played = collector.collect(tasks).all_episodes
    collector.close()
    usable = [info["valid_action"] for episode in played for info in episode.infos]
    return np.mean([episode.total_reward for episode in played]), np.mean(usable)


def test_imitating_random_moves_teaches_to_speak_and_stays_at_chance():
    mean, usable = play(*player_at_chance(ECHO, words=4, max_turns=2))
    assert usable > 0.9
    assert 0.15 < mean < 0.35  # chance is 1 word in 4


def test_imitating_a_solver_teaches_to_play():
    env, tokenizer, chat = make(words=4, max_turns=2)
    lm, _ = player_at_chance(ECHO, words=4, max_turns=2, steps=0)
    turns = turns_of(env, chat, 256, "solver")
    model = PolicyValueModel(copy.deepcopy(lm), critic="none")
    imitate(model, turns, steps=60, batch_size=64, learning_rate=5e-3)
    assert play(model.lm, tokenizer)[0] > 0.9
