"""Echo: the rules, one test per rule."""

import pytest

from llm_gym.envs.micro.echo import WORDS, EchoEnv, parse_word
from tests.envs.playing import expected_by_random_play


def make(seed=0, **kwargs):
    env = EchoEnv(**kwargs)
    env.reset(seed=seed)
    return env


@pytest.mark.parametrize(("words", "turns"), [(4, 4), (2, 5), (3, 1)])
def test_a_random_player_gets_one_over_the_words(words, turns):
    score, success = expected_by_random_play(make(words=words, max_turns=turns))
    assert score == pytest.approx(1 / words)
    assert success == pytest.approx(words**-turns)


def test_a_wrong_word_pays_nothing_and_the_game_goes_on():
    env = make(words=2, max_turns=3)
    wrong = next(word for word in env.legal_actions() if word != env.oracle_action())
    obs, reward, terminated, _, info = env.step(wrong)
    assert (reward, terminated, info["valid_action"]) == (0.0, False, True)
    assert obs.startswith("No.")


def test_all_right_wins_and_one_wrong_loses():
    env = make(words=2, max_turns=3)
    for _ in range(3):
        info = env.step(env.oracle_action())[4]
    assert info["success"]
    env.reset(seed=0)
    env.step(next(word for word in env.legal_actions() if word != env.oracle_action()))
    env.step(env.oracle_action())
    _, reward, terminated, truncated, info = env.step(env.oracle_action())
    assert reward == pytest.approx(1 / 3)
    assert (terminated, truncated, info["stop_reason"]) == (True, False, "lost")


def test_an_unknown_word_costs_a_turn_and_asks_again():
    env = make(max_turns=2)
    asked = env.describe()
    obs, reward, _, _, info = env.step("elephant")
    assert (reward, info["valid_action"], info["turn"]) == (0.0, False, 1)
    assert obs.endswith(asked)
    assert env.step(env.oracle_action())[4]["stop_reason"] == "lost"
    assert parse_word("blue", WORDS[:2]) == "blue"
    assert parse_word("green", WORDS[:2]) is None


def test_the_oracle_expects_success_only_while_faultless():
    env = make()
    env.step(env.oracle_action())
    assert env.oracle_value() == 1.0
    env.step("elephant")
    assert env.oracle_value() == 0.0
