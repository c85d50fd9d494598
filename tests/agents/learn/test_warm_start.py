"""When a warm start goes on for another round, and when that would bring nothing."""

from types import SimpleNamespace

import pytest

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.warm_start import WarmStart, another_round


def seen(success, invalid=0.0):
    return SimpleNamespace(success=success, invalid=invalid)


def test_replies_that_cannot_be_used_are_worth_another_round_while_it_helps():
    assert another_round("random", seen(0, 0.99), seen(0, 0.98), first=True) == (
        "98% of the replies cannot be used"
    )
    assert (
        another_round("random", seen(0, 0.4), seen(0, 0.3)) == "30% of the replies cannot be used"
    )
    assert another_round("random", seen(0, 0.4), seen(0, 0.31)) is None
    assert another_round("random", seen(0, 0.4), seen(0, 0.1)) is None


@pytest.mark.parametrize(("won", "invalid"), [(0.0, 0.5), (0.89, 0.0), (0.9, 0.5)])
def test_a_solver_is_imitated_until_most_is_won(won, invalid):
    why = another_round("solver", seen(won, invalid), seen(won, invalid))
    assert why == (f"{won:.0%} of the episodes are won, fewer than 90%" if won < 0.9 else None)
    assert another_round("random", seen(won), seen(won)) is None


@pytest.mark.parametrize(
    ("player", "rounds", "falls"),
    [
        ("solver", 4, [(1.0, 0.75), (0.75, 0.5), (0.5, 0.25), (0.25, 0.0)]),
        ("solver", 1, [(1.0, 1.0)]),
        ("random", 2, [(1.0, 1.0), (1.0, 1.0)]),
    ],
)
def test_over_the_rounds_of_a_solvers_moves_the_rate_falls_to_0(player, rounds, falls):
    config = ConfigStore()
    config.warm_start.rounds = rounds
    others = dict.fromkeys(set(WarmStart.__dataclass_fields__) - {"settings", "losses"})
    teacher = WarmStart(settings=config.warm_start, **others)
    assert [teacher.rate_decay(player, at) for at in range(rounds)] == falls
