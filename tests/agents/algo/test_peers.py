"""Where other trainers go wrong, with their rule beside ours.

Each test holds the number a peer computes (its rule written out in a line) and shows that ours
differs, so that nobody "fixes" the difference away. The rules are described in
``docs/algorithms.md``.
"""

from __future__ import annotations

import pytest
import torch

from llm_gym_agents.algo import (
    compute_advantage,
    compute_gae_advantage_return,
    compute_policy_loss,
)

GAMMA, LAM = 0.9, 0.8


def test_an_observation_costs_no_discount() -> None:
    """Peers that treat observations as steps discount by their length; so does OpenRLHF."""
    mask = torch.tensor([[1, 0, 0, 0, 1]])
    rewards = torch.tensor([[0.0, 0, 0, 0, 1]])
    advantages, _ = compute_gae_advantage_return(
        rewards, torch.zeros(1, 5), mask, GAMMA, LAM, whiten=False
    )
    observations_are_steps = (GAMMA * LAM) ** 4
    assert advantages[0, 0].item() == pytest.approx(GAMMA * LAM)
    assert advantages[0, 0].item() != pytest.approx(observations_are_steps)


def test_the_value_of_an_observation_does_not_leak() -> None:
    """Peers that keep observations in the recursion read the critic there, untrained."""
    mask = torch.tensor([[1, 0, 1]])
    rewards = torch.zeros(1, 3)
    tame, _ = compute_gae_advantage_return(
        rewards, torch.tensor([[0.5, 0.0, 0.5]]), mask, GAMMA, LAM, whiten=False
    )
    wild, _ = compute_gae_advantage_return(
        rewards, torch.tensor([[0.5, 1e6, 0.5]]), mask, GAMMA, LAM, whiten=False
    )
    assert torch.equal(tame, wild)


def test_credit_crosses_turns() -> None:
    """AgileRL's token mode cuts at every turn, so a first move never hears of the win."""
    mask = torch.tensor([[1, 0, 1]])
    rewards = torch.tensor([[0.0, 0, 1]])
    advantages, _ = compute_gae_advantage_return(
        rewards, torch.zeros(1, 3), mask, 1.0, 1.0, whiten=False
    )
    cut_at_the_turn = 0.0
    assert advantages[0, 0].item() == 1.0 != cut_at_the_turn


def test_a_turn_is_paid_once_however_long_it_is() -> None:
    """AgileRL's token mode writes a turn's reward on each of its tokens, so length pays."""
    mask = torch.tensor([[1, 1, 1]])
    on_the_last_token = torch.tensor([[0.0, 0, 1]])
    advantages, _ = compute_gae_advantage_return(
        on_the_last_token, torch.zeros(1, 3), mask, 1.0, 1.0, whiten=False
    )
    on_every_token = 3.0
    assert advantages[0, 0].item() == 1.0 != on_every_token


def test_a_turn_that_earned_nothing_is_still_a_turn() -> None:
    """RAGEN's bi-level GAE finds turn ends where the reward is not 0, so it misses this one."""
    mask = torch.tensor([[1, 1, 0, 1, 1]])
    rewards = torch.tensor([[0.0, 0, 0, 0, 1]])
    values = torch.tensor([[0.2, 0.3, 9, 0.4, 0.5]])
    advantages, _ = compute_advantage(
        "gae_turn", rewards, mask, values=values, gamma=GAMMA, lam=LAM, whiten=False
    )
    second = 1.0 - 0.4
    first = GAMMA * 0.4 - 0.2 + GAMMA * LAM * second
    one_turn_only = 1.0 - 0.2
    assert advantages[0, 0].item() == pytest.approx(first)
    assert advantages[0, 0].item() != pytest.approx(one_turn_only)


def test_a_truncated_last_turn_bootstraps() -> None:
    """verl, AgileRL and TRL end the return where the budget ended, as if the game were lost."""
    mask = torch.tensor([[1, 0, 1, 1]])
    rewards, values = torch.zeros(1, 4), torch.full((1, 4), 0.5)
    cut, _ = compute_gae_advantage_return(rewards, values, mask, 1.0, 1.0, whiten=False)
    bootstrapped, _ = compute_gae_advantage_return(
        rewards, values, mask, 1.0, 1.0, torch.tensor([0.5]), whiten=False
    )
    assert cut[0, 3].item() == -0.5
    assert bootstrapped[0].tolist() == [0.0, 0.0, 0.0, 0.0]


def test_a_fully_masked_row_is_no_member_of_its_group() -> None:
    """verl counts it with a score of 0 and shifts the mean of the others."""
    mask = torch.tensor([[1, 1], [1, 1], [0, 0]])
    rewards = torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 0.0]])
    advantages, _ = compute_advantage("dr_grpo", rewards, mask, index=["a"] * 3)
    counted_as_zero = 1.0 - 4.0 / 3.0
    assert advantages[:, 0].tolist() == [-1.0, 1.0, 0.0]
    assert advantages[0, 0].item() != pytest.approx(counted_as_zero)


def test_a_fully_masked_row_does_not_weigh_in_the_loss() -> None:
    mask = torch.tensor([[1, 1], [0, 0]])
    ones = torch.ones(2, 2)
    for aggregation in ("token-mean", "seq-mean-token-mean"):
        loss, _ = compute_policy_loss(0 * ones, 0 * ones, ones, mask, aggregation=aggregation)
        assert loss.item() == -1.0


def test_equal_rewards_of_a_float32_group_give_no_gradient() -> None:
    """A float32 mean is off in the last digit, and dividing by std + 1e-6 magnifies it."""
    mask = torch.ones(3, 1)
    rewards = torch.full((3, 1), 0.9)
    noisy = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    advantages, _ = compute_advantage("grpo", rewards, mask, index=["a"] * 3)
    assert noisy.abs().max() > 0.05
    assert advantages.tolist() == [[0.0], [0.0], [0.0]]


def test_a_mean_per_micro_batch_depends_on_the_cut_and_ours_does_not() -> None:
    """AgileRL averages each micro-batch, so a short episode alone weighs as much as a long one."""
    old = torch.zeros(2, 4)
    advantages = torch.tensor([[4.0, 0, 0, 0], [1.0, 1, 1, 1]])
    mask = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1]])
    whole, _ = compute_policy_loss(old, old, advantages, mask)
    means = [compute_policy_loss(old[r], old[r], advantages[r], mask[r])[0] for r in ([0], [1])]
    assert whole.item() == pytest.approx(-8 / 5)
    assert (sum(means) / 2).item() == pytest.approx(-5 / 2)
