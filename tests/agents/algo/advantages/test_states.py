"""Estimators that use states, against examples worked by hand.

Two episodes of one start, one token a turn: 0 → 1 and won, 0 → 2 and lost.
"""

import dataclasses

import pytest
import torch

from llm_gym_agents.algo import StreamError, TokenStream, get_advantage

STREAM = TokenStream(
    reward_T=torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64),
    lengths_E=torch.tensor([2, 2]),
    turn_ends_T=torch.ones(4, dtype=torch.bool),
    group_E=torch.tensor([7, 7]),
    state_K=torch.tensor([0, 1, 0, 2]),
)
ROOT = 0.5**0.5


def with_(**changes):
    return dataclasses.replace(STREAM, **changes)


def advantages(name, stream=STREAM, **settings):
    return get_advantage(name)(stream, **settings).advantages_T.tolist()


BRANCHED = with_(
    branch_turn_B=torch.tensor([0, -1, 0, 1, 2]),
    branch_state_B=torch.tensor([0, 3, 0, 1, 0]),
    branch_return_B=torch.tensor([1.0, 1.0, 0.0, 0.5, 0.0]),
)
UNKNOWN = torch.tensor([0.5, float("nan"), 0.5, 0.25])
PLAIN, SHRUNK = {"shrinkage": 0.0, "whiten": False}, {"shrinkage": 2.0, "whiten": False}
BY_HAND = {
    "within a state": ("gigpo", STREAM, {"epsilon": 0.0}, [2 * ROOT, ROOT, -2 * ROOT, -ROOT]),
    "step weight": (
        "gigpo", STREAM, {"norm_by_std": False, "step_weight": 3.0}, [2.0, 0.5, -2.0, -0.5],
    ),
    # In state 0: 0.5 and 0, so 0.25 from their mean.
    "discounted": (
        "gigpo", STREAM, {"norm_by_std": False, "gamma": 0.5}, [0.75, 0.5, -0.75, -0.5],
    ),
    "TD errors of mean returns": ("state_td", STREAM, PLAIN, [0.5, 0.0, -0.5, 0.0]),
    # At lambda 1 it is the episode's own return less the value of the state.
    "lambda 1": ("state_td", STREAM, {"table_lambda": 1.0} | PLAIN, [0.5, 0.0, -0.5, 0.0]),
    # The line over the potential is 2/3 at 0.5 and 0 at 0.25; V = 7/12, 7/9, 0 with two visits of
    # the prior.
    "shrunk to a line": (
        "state_td", with_(potential_K=torch.tensor([0.5, 0.5, 0.5, 0.25])), SHRUNK,
        [7 / 36, 2 / 9, -7 / 12, 0.0],
    ),
    # Without a potential the prior is the mean of the group: V = 0.5, (1 + 1) / 3, 1 / 3 with two
    # visits of 0.5.
    "shrunk to the mean": ("state_td", STREAM, SHRUNK, [1 / 6, 1 / 3, -1 / 6, -1 / 3]),
    "a potential that is none": (
        "state_td", with_(potential_K=UNKNOWN), SHRUNK, [1 / 6, 1 / 3, -1 / 6, -1 / 3],
    ),
    # Each group's returns are all equal, and so is its prior.
    "two groups": (
        "state_td", with_(group_E=torch.tensor([1, 0]), state_K=torch.arange(4)),
        {"whiten": False}, [0.0] * 4,
    ),
    # V = 0.5, 0.5, 0, and the own return, 0, where no branch came back.
    "mean of branches": ("vine", BRANCHED, {"whiten": False}, [0.0, 0.5, 0.0, 0.0]),
    # State 0: 1 and 0, in branches 1, 0 and 0; state 1: 1 and 0.5; state 2: 0.
    "visits in branches": (
        "state_td", BRANCHED, {"branches": 1} | PLAIN, [0.75 - 0.4, 1.0 - 0.75, -0.4, 0.0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_advantages_are_those_worked_by_hand(case):
    name, stream, settings, expected = BY_HAND[case]
    assert advantages(name, stream, **settings) == pytest.approx(expected)


def test_gigpo_where_no_state_recurs_is_grpo():
    alone = with_(state_K=torch.arange(4))
    assert advantages("gigpo", alone) == pytest.approx(advantages("grpo"))


def test_tokens_of_a_turn_share_its_advantage():
    longer = TokenStream(
        reward_T=torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]),
        lengths_E=torch.tensor([3, 2]),
        turn_ends_T=torch.tensor([False, True, True, True, True]),
        group_E=torch.tensor([0, 0]),
        state_K=torch.tensor([0, 1, 0, 2]),
    )
    for name in ("gigpo", "state_td"):
        first, second, *_ = advantages(name, longer)
        assert first == second
    found = advantages("state_td", longer, shrinkage=0.0, whiten=False)
    assert found == pytest.approx([0.5, 0.5, 0.0, -0.5, 0.0])


@pytest.mark.parametrize(("name", "settings"), [("vine", {}), ("state_td", {"branches": 1})])
def test_branches_that_are_asked_for_must_be_there(name, settings):
    with pytest.raises(StreamError, match="branch_turn_B"):
        advantages(name, **settings)


def test_states_are_needed_and_must_fit_the_turns():
    with pytest.raises(StreamError, match="state_K"):
        advantages("gigpo", with_(state_K=None))
    with pytest.raises(StreamError, match="state_K"):
        with_(state_K=torch.tensor([0, 1]))
    empty = TokenStream(
        reward_T=torch.zeros(0),
        lengths_E=torch.tensor([0, 0]),
        group_E=torch.tensor([0, 0]),
        state_K=torch.zeros(0, dtype=torch.int64),
    )
    assert advantages("gigpo", empty) == advantages("state_td", empty) == []
