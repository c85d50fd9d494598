"""When a warm start goes on for another round, and when that would bring nothing."""

from types import SimpleNamespace

import pytest

from llm_gym_agents.learn.warm_up import once_more


def seen(success, invalid=0.0):
    return SimpleNamespace(success=success, invalid=invalid)


@pytest.mark.parametrize("player", ["random", "solver"])
def test_replies_that_cannot_be_used_are_worth_another_round_while_it_helps(player):
    assert once_more(player, seen(0, 0.99), seen(0, 0.98), first=True) == (
        "98% of the replies cannot be used"
    )
    assert once_more(player, seen(0, 0.4), seen(0, 0.3)) == "30% of the replies cannot be used"
    assert once_more(player, seen(0, 0.4), seen(0, 0.31)) is None
    assert once_more(player, seen(0, 0.4), seen(0, 0.1)) is None


@pytest.mark.parametrize(
    ("last", "now", "goes_on"), [(0.1, 0.3, True), (0.3, 0.34, False), (0.5, 0.9, False)]
)
def test_a_solver_is_imitated_for_longer_while_more_is_won(last, now, goes_on):
    why = once_more("solver", seen(last), seen(now))
    assert why == (f"{last:.0%} to {now:.0%} of the episodes are won by now" if goes_on else None)
    assert once_more("random", seen(last), seen(now)) is None
