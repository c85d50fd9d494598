"""Padded rows: what is outside the mask is harmless."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym_agents.algo import (
    ADVANTAGES,
    POLICY_LOSSES,
    PaddedRows,
    StreamError,
    TokenStream,
    compute_advantage,
    compute_gae_advantage_return,
    compute_policy_loss,
    get_advantage,
)
from llm_gym_agents.algo.tensor_ops import mean, standardize
from tests.agents.algo.reference import examples

NAN, INF = float("nan"), float("inf")
MASK = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 1, 1, 1]])


def padded_inputs(name):
    torch.manual_seed(0)
    spec = get_advantage(name)
    inputs: dict[str, object] = {}
    if spec.needs_critic:
        inputs["values"] = torch.randn(4, 5)
    if spec.needs_groups:
        inputs["index"] = ["a", "a", "b", "b"]
    return inputs


@pytest.mark.parametrize(
    "name", [name for name in ADVANTAGES.names() if not get_advantage(name).needs_states]
)
@pytest.mark.parametrize("poison", [NAN, INF])
def test_outside_the_mask_results_are_zero_and_inputs_do_not_matter(name, poison):
    inputs = padded_inputs(name)
    rewards = torch.randn(4, 5) * MASK
    clean = compute_advantage(name, rewards, MASK, **inputs)
    if "values" in inputs:
        inputs["values"] = inputs["values"].masked_fill(MASK == 0, poison)
    dirty = compute_advantage(name, rewards.masked_fill(MASK == 0, poison), MASK, **inputs)
    for one, other in zip(clean, dirty, strict=True):
        assert torch.equal(one, other)
        assert (one[MASK == 0] == 0).all()
        assert one.isfinite().all()


@pytest.mark.parametrize("name", POLICY_LOSSES.names())
@pytest.mark.parametrize("poison", [NAN, INF])
def test_losses_and_gradients_ignore_what_is_masked(name, poison):
    torch.manual_seed(0)
    old, advantages = -torch.rand(4, 5), torch.randn(4, 5)
    results = []
    for fill in (0.0, poison):
        outside = MASK == 0
        log_probs = (old + 0.1).masked_fill(outside, fill).requires_grad_()
        loss, metrics = compute_policy_loss(
            old.masked_fill(outside, fill),
            log_probs,
            advantages.masked_fill(outside, fill),
            MASK,
            policy_loss=name,
        )
        loss.backward()
        assert (log_probs.grad[outside] == 0).all()
        results.append((loss.item(), metrics, log_probs.grad))
    assert results[0][0] == results[1][0]
    assert results[0][1] == results[1][1]
    assert torch.equal(results[0][2], results[1][2])


@pytest.mark.parametrize("name", ADVANTAGES.names())
def test_a_reward_on_a_masked_token_raises_in_every_estimator(name):
    rewards = torch.zeros(4, 5)
    rewards[3, 0] = -0.5
    with pytest.raises(StreamError, match="row 3, position 0"):
        compute_advantage(name, rewards, MASK, **padded_inputs(name))


@examples
@given(st.data())
def test_padding_and_observations_change_nothing(data):
    mask = torch.tensor(
        data.draw(st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=1, max_size=4))
    )
    torch.manual_seed(0)
    rewards, values = torch.randn(len(mask), 9) * mask, torch.randn(len(mask), 9)
    bootstrap = torch.randn(len(mask))
    advantages, returns = compute_gae_advantage_return(
        rewards, values, mask, 0.9, 0.8, bootstrap, whiten=False
    )
    stream = TokenStream(
        reward_T=rewards[mask],
        value_T=values[mask],
        lengths_E=mask.sum(1),
        terminated_E=torch.zeros(len(mask), dtype=torch.bool),
        bootstrap_E=bootstrap,
    )
    packed = get_advantage("gae")(stream, gamma=0.9, lam=0.8, whiten=False)
    assert torch.equal(advantages[mask], packed.advantages_T)
    assert torch.equal(returns[mask], packed.returns_T)


def test_a_run_of_sampled_tokens_is_a_turn():
    rows = PaddedRows(MASK)
    assert rows.turn_ends_T.tolist() == [False, True, True, True, False, False, False, True]
    rewards = torch.zeros(1, 5)
    rewards[0, 3] = 1.0
    per_turn, _ = compute_gae_advantage_return(
        rewards, torch.zeros(1, 5), MASK[:1], 0.5, 1.0, discount="turn", whiten=False
    )
    assert per_turn.tolist() == [[0.5, 0.5, 0.0, 1.0, 0.0]]
    by_turn, _ = compute_advantage(
        "gae_turn", rewards, MASK[:1], values=torch.zeros(1, 5), gamma=0.5, whiten=False
    )
    assert by_turn[0, 3].item() == 1.0


def test_a_batch_without_any_sampled_token_has_a_loss_of_zero():
    nothing, mask = torch.full((2, 3), NAN), torch.zeros(2, 3)
    loss, metrics = compute_policy_loss(nothing, nothing, nothing, mask)
    assert loss.item() == 0.0
    assert all(value == 0.0 for value in metrics.values())
    advantages, returns = compute_gae_advantage_return(nothing, nothing, mask, 1.0, 1.0)
    assert (advantages == 0).all()
    assert (returns == 0).all()


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.int64, torch.float32])
def test_a_mask_may_have_any_dtype(dtype):
    rewards = torch.ones(4, 5) * MASK
    advantages, _ = compute_advantage("reinforce_plus_plus", rewards, MASK.to(dtype), whiten=False)
    assert advantages[0].tolist() == [3.0, 2.0, 0.0, 1.0, 0.0]


def test_wrong_masks_and_shapes_are_refused():
    for mask in (torch.tensor([[0.5, 1.0]]), torch.tensor([0, 1])):
        with pytest.raises(StreamError):
            PaddedRows(mask)
    with pytest.raises(StreamError, match="values"):
        compute_gae_advantage_return(torch.zeros(4, 5), torch.zeros(4, 6), MASK, 1.0, 1.0)


def test_equal_entries_whiten_to_zero_and_bfloat16_is_summed_wide():
    # In float32 the mean of these is off by 6e-8, which 1 / sqrt(1e-8) would blow up.
    assert standardize(torch.full((3,), 0.9)).tolist() == [0.0, 0.0, 0.0]
    assert standardize(torch.tensor([5.0])).tolist() == [0.0]
    assert standardize(torch.empty(0)).shape == (0,)
    found = mean(torch.full((3001,), 0.1, dtype=torch.bfloat16))
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(torch.tensor(0.1, dtype=torch.bfloat16).item(), abs=1e-9)
    assert mean(torch.ones(2, dtype=torch.float64)).dtype == torch.float64
    assert mean(torch.empty(0)).item() == 0.0
