"""Memory: the rules, one test per rule."""

import pytest

from llm_gym.envs.micro.echo import MemoryEnv
from tests.envs.playing import episodes


def make(seed=0, **kwargs):
    env = MemoryEnv(**kwargs)
    env.reset(seed=seed)
    return env


def at_the_question(seed=0, **kwargs):
    env = make(seed, **kwargs)
    for _ in range(env.delay):
        obs, *_ = env.step("ok")
    return env, obs


@pytest.mark.parametrize(("words", "delay"), [(4, 2), (2, 1), (16, 5)])
def test_a_random_player_gets_one_over_the_words(words, delay):
    env, _ = at_the_question(words=words, delay=delay)
    saved, rewards = env.snapshot(), []
    for action in env.legal_actions():
        env.restore(saved)
        rewards.append(env.step(action)[1])
    assert sum(rewards) / len(rewards) == 1 / words


@pytest.mark.parametrize("delay", [1, 3, 6])
def test_the_question_comes_after_the_delay(delay):
    env = make(delay=delay)
    seen = [env.step("ok")[0] for _ in range(delay)]
    assert [text == "Which word was it?" for text in seen] == [False] * (delay - 1) + [True]


def test_the_word_is_shown_once():
    for seed in range(30):
        env = MemoryEnv(delay=5)
        opening, _ = env.reset(seed=seed)
        assert opening.endswith(f"Remember {env._word}.")
        assert all(env._word not in env.step("ok")[0] for _ in range(5))


def test_at_the_question_moves_are_listed_and_an_unknown_word_loses():
    env, _ = at_the_question()
    _, _, terminated, truncated, info = env.step("elephant")
    assert (terminated, truncated) == (True, False)
    assert (info["valid_action"], info["stop_reason"]) == (False, "lost")
    assert make().legal_actions() is None
    env, _ = at_the_question(words=3)
    assert env.legal_actions() == ["red", "blue", "green"]


def test_every_word_is_asked_for_and_what_was_shown_last_never_wins():
    for seed in range(30):
        env = make(seed, words=2, delay=3)
        for _ in range(2):
            obs, *_ = env.step("ok")
        env.step("ok")
        assert env.step(obs.removeprefix("Ignore ").rstrip("."))[4]["stop_reason"] == "lost"
    drawn = set()
    for env in episodes("Memory", 100, words=5):
        drawn.add(env._word)
    assert drawn == set(env.example_moves())
