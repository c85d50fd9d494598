"""Memory: the rules, one test per rule."""

import pytest

from tests.envs.playing import episodes, start_game


def at_the_question(**kwargs):
    env = start_game("Memory", **kwargs)
    for _ in range(env.delay):
        env.step("ok")
    return env


@pytest.mark.parametrize(("words", "delay"), [(4, 2), (2, 1), (16, 5)])
def test_a_random_answer_is_right_with_probability_one_over_the_words(words, delay):
    env = at_the_question(words=words, delay=delay)
    saved, rewards = env.snapshot(), []
    for action in env.legal_actions():
        env.restore(saved)
        rewards.append(env.step(action)[1])
    assert sum(rewards) / len(rewards) == 1 / words


@pytest.mark.parametrize("delay", [1, 3, 6])
def test_the_question_comes_after_the_delay(delay):
    env = start_game("Memory", delay=delay)
    seen = [env.step("ok")[0] for _ in range(delay)]
    assert [text == "Which word was it?" for text in seen] == [False] * (delay - 1) + [True]


def test_the_word_is_shown_once():
    for env in episodes("Memory", 30, delay=5):
        assert env.describe() == f"Remember {env._word}."
        assert all(env._word not in env.step("ok")[0] for _ in range(5))


def test_at_the_question_moves_are_listed_and_an_unknown_word_loses():
    env = at_the_question()
    assert not env.step("elephant")[4]["valid_action"]
    assert start_game("Memory").legal_actions() is None
    env = at_the_question(words=3)
    assert env.legal_actions() == ["red", "blue", "green"]


def test_every_word_is_drawn_and_the_last_distractor_never_wins():
    for env in episodes("Memory", 30, words=2, delay=3):
        for _ in range(2):
            obs, *_ = env.step("ok")
        env.step("ok")
        assert env.step(obs.removeprefix("Ignore ").rstrip("."))[4]["stop_reason"] == "lost"
    drawn = {env._word for env in episodes("Memory", 100, words=5)}
    assert drawn == {"red", "blue", "green", "gold", "cat"}
