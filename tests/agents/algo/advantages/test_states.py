"""Estimators that use states, against examples worked by hand.

Two episodes of one start, one token a turn: 0 → 1 and won, 0 → 2 and lost.
"""

from __future__ import annotations

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


def with_(**changes) -> TokenStream:
    return dataclasses.replace(STREAM, **changes)


def advantages(name: str, stream: TokenStream = STREAM, **settings) -> list[float]:
    return get_advantage(name)(stream, **settings).advantages_T.tolist()


def test_gigpo_adds_the_comparison_within_a_state():
    found = advantages("gigpo", epsilon=0.0)
    assert found == pytest.approx([2 * ROOT, ROOT, -2 * ROOT, -ROOT])
    found = advantages("gigpo", norm_by_std=False, step_weight=3.0)
    assert found == pytest.approx([2.0, 0.5, -2.0, -0.5])


def test_gigpo_discounts_the_reward_to_go():
    # In state 0: 0.5 and 0, so 0.25 from their mean.
    found = advantages("gigpo", norm_by_std=False, gamma=0.5)
    assert found == pytest.approx([0.75, 0.5, -0.75, -0.5])


def test_gigpo_where_no_state_recurs_is_grpo():
    alone = with_(state_K=torch.arange(4))
    assert advantages("gigpo", alone) == pytest.approx(advantages("grpo"))


def test_a_plain_table_gives_the_td_errors_of_mean_returns():
    plain = {"shrinkage": 0.0, "whiten": False}
    assert advantages("state_td", **plain) == pytest.approx([0.5, 0.0, -0.5, 0.0])
    # At lambda 1 it is the episode's own return less the value of the state.
    found = advantages("state_td", table_lambda=1.0, **plain)
    assert found == pytest.approx([0.5, 0.0, -0.5, 0.0])


def test_a_table_is_shrunk_to_the_line_over_the_potential():
    # The line is 2/3 at 0.5 and 0 at 0.25; V = 7/12, 7/9, 0 with two visits of the prior.
    potential_K = torch.tensor([0.5, 0.5, 0.5, 0.25])
    found = advantages("state_td", with_(potential_K=potential_K), shrinkage=2.0, whiten=False)
    assert found == pytest.approx([7 / 36, 2 / 9, -7 / 12, 0.0])


@pytest.mark.parametrize("potential_K", [None, torch.tensor([0.5, float("nan"), 0.5, 0.25])])
def test_without_a_potential_the_prior_is_the_mean_of_the_group(potential_K):
    # V = 0.5, (1 + 1) / 3, 1 / 3 with two visits of 0.5.
    found = advantages("state_td", with_(potential_K=potential_K), shrinkage=2.0, whiten=False)
    assert found == pytest.approx([1 / 6, 1 / 3, -1 / 6, -1 / 3])


def test_groups_do_not_share_a_prior():
    two = with_(group_E=torch.tensor([1, 0]), state_K=torch.arange(4))
    # Each group's returns are all equal, and so is its prior.
    assert advantages("state_td", two, whiten=False) == pytest.approx([0.0] * 4)


BRANCHED = with_(
    branch_turn_B=torch.tensor([0, -1, 0, 1, 2]),
    branch_state_B=torch.tensor([0, 3, 0, 1, 0]),
    branch_return_B=torch.tensor([1.0, 1.0, 0.0, 0.5, 0.0]),
)


def test_vine_takes_the_mean_of_the_branches_from_each_state():
    # V = 0.5, 0.5, 0, and the own return, 0, where no branch came back.
    found = advantages("vine", BRANCHED, whiten=False)
    assert found == pytest.approx([0.0, 0.5, 0.0, 0.0])


def test_a_table_counts_visits_in_branches():
    # State 0: 1 and 0, in branches 1, 0 and 0; state 1: 1 and 0.5; state 2: 0.
    found = advantages("state_td", BRANCHED, branches=1, shrinkage=0.0, whiten=False)
    assert found == pytest.approx([0.75 - 0.4, 1.0 - 0.75, -0.4, 0.0])


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


@pytest.mark.parametrize(
    ("name", "settings"),
    [("vine", {}), ("state_td", {"branches": 1})],
)
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
