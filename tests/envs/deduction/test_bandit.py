"""Bandit: what buttons pay, what counts as the answer, and players that learn from the text."""

import pytest

from tests.envs.playing import episodes, start_game


def test_a_button_pays_with_its_probability():
    env = start_game("Bandit", arms=2, gap=0.6, max_turns=4001)
    for _ in range(2000):
        env.step("red")
        env.step("blue")
    assert sorted(env._chances)[1] == pytest.approx(0.8)
    for arm in range(2):
        assert env._tries[arm] == 2000
        assert env._paid[arm] / 2000 == pytest.approx(env._chances[arm], abs=0.05)


@pytest.mark.parametrize(("arms", "gap"), [(2, 0.8), (5, 0.1), (10, 0.05)])
def test_exactly_one_button_is_best_by_the_gap(arms, gap):
    bests = set()
    for env in episodes("Bandit", 100, arms=arms, gap=gap, max_turns=20):
        first, second = sorted(env._chances, reverse=True)[:2]
        assert env._chances.index(first) == env._best
        assert first == pytest.approx(0.5 + gap / 2)
        assert first - second >= gap - 1e-9
        assert min(env._chances) >= 0.1 - 1e-9
        bests.add(env._best)
    assert bests == set(range(arms)), "every button is the best one in some episode"


def test_the_summary_counts_every_press_and_can_be_left_out():
    env = start_game("Bandit", arms=2, gap=0.5, max_turns=5)
    texts = [env.step(move)[0] for move in ("red", "blue", "red")]
    pays = [int(text.split("pays ")[1][0]) for text in texts]
    assert f"Paid so far: red {pays[0] + pays[2]} of 2, blue {pays[1]} of 1." in texts[-1]
    assert "Paid so far" not in start_game("Bandit", summary=False).step("red")[0]


def test_the_solver_tries_every_button_and_names_the_one_that_paid_best():
    env = start_game("Bandit", seed=5)
    for _ in range(5):
        env.step(env.solver_action())
    assert env._tries == [1] * 5
    env = start_game("Bandit", arms=2, gap=0.5, max_turns=4)
    env._base_observations += [
        "You press red: it pays 0.\nTurns left: 3.",
        "You press blue: it pays 1.\nTurns left: 2.",
        "You press red: it pays 0.\nTurns left: 1. Now name the best button.",
    ]
    assert env.solver_action() == "blue"
