"""Count: the rules, one test per rule."""

import pytest

from llm_gym.envs.micro.count import CountEnv
from tests.envs.playing import expected_by_random_play


def make(start, **kwargs):
    env = CountEnv(**kwargs)
    for seed in range(1000):
        env.reset(seed=seed)
        if env._start == start:
            return env
    raise AssertionError(f"no seed starts at {start}")


@pytest.mark.parametrize(("numbers", "turns"), [(5, 3), (2, 6), (7, 1)])
def test_a_random_player_gets_the_geometric_sum(numbers, turns):
    score, success = expected_by_random_play(make(1, numbers=numbers, max_turns=turns))
    assert score == pytest.approx(sum(numbers**-k for k in range(1, turns + 1)) / turns)
    assert success == pytest.approx(numbers**-turns)


def test_after_the_last_number_comes_one_and_a_wrong_one_loses():
    assert make(5, numbers=5).step("1")[1] > 0
    obs, reward, terminated, truncated, info = make(3, numbers=9).step("5")
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, True, False, "lost")
    assert obs == "No, 4 comes next."
    env = make(3, numbers=9)
    assert not any(character.isdigit() for character in env.step("4")[0])


@pytest.mark.parametrize("move", ["0", "10", "4.5", "-4", "4 5", "9" * 500])
def test_anything_else_costs_a_turn_and_counts_nothing(move):
    env = make(3, numbers=9, max_turns=2)
    assert not env.step(move)[4]["valid_action"]
    assert env.oracle_action() == "4"
    assert env.step("4")[4]["stop_reason"] == "lost"


def test_players_count_on_after_an_unusable_reply_that_costs_the_win():
    env = make(3)
    env.step(env.solver_action())
    env.step("what?")
    assert env.solver_action() == env.oracle_action()
    env = make(3)
    assert env.oracle_value() == 1.0
    env.step("what?")
    assert env.oracle_value() == 0.0
