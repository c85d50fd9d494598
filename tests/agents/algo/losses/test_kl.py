from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import gradcheck

from llm_gym.errors import ConfigError
from llm_gym_agents.algo import (
    KL_KINDS,
    KLController,
    StreamError,
    apply_kl_penalty,
    full_vocabulary_kl,
    kl_estimate,
    kl_in_rewards,
)

INF = float("inf")


@pytest.mark.parametrize("kind", ["k1", "abs", "k2", "k3"])
def test_gradients_are_exact(kind: str) -> None:
    log_prob_T = torch.tensor([-0.5, -2.5, -1.2], dtype=torch.float64, requires_grad=True)
    ref_T = torch.tensor([-0.7, -2.0, -0.2], dtype=torch.float64)
    assert gradcheck(lambda lp: kl_estimate(lp, ref_T, kind), (log_prob_T,))


@pytest.mark.parametrize("kind", ["k1", "abs", "k2", "k3"])
def test_a_plus_keeps_the_value_and_takes_the_gradient_of_k2(kind: str) -> None:
    log_prob_T = torch.tensor([-0.5, -2.5, -1.0], requires_grad=True)
    ref_T = torch.tensor([-0.7, -2.0, -30.0])
    plus_T = kl_estimate(log_prob_T, ref_T, kind + "+")
    torch.testing.assert_close(plus_T, kl_estimate(log_prob_T, ref_T, kind))
    (gradient_T,) = torch.autograd.grad(plus_T.sum(), log_prob_T)
    torch.testing.assert_close(gradient_T, (log_prob_T - ref_T).detach())


def test_estimates_average_to_the_exact_kl_and_its_gradient() -> None:
    # Over a small vocabulary the expectation is a sum: k1 and k3 are unbiased, and the gradient
    # that "k3+" takes is, on average, that of the KL itself. That of plain k3 is not.
    torch.manual_seed(0)
    logits = (0.5 * torch.randn(5, dtype=torch.float64)).requires_grad_()
    ref = 0.5 * torch.randn(5, dtype=torch.float64)
    exact = full_vocabulary_kl(logits, ref)
    (exact_gradient,) = torch.autograd.grad(exact, logits)
    p = logits.softmax(-1).detach()
    for kind in ("k1", "k3", "k3+"):
        estimates = kl_estimate(logits.log_softmax(-1), ref.log_softmax(-1), kind)
        torch.testing.assert_close((p * estimates).sum(), exact)
        (gradient,) = torch.autograd.grad((p * estimates).sum(), logits)
        assert torch.allclose(gradient, exact_gradient) is (kind == "k3+")


def test_the_exact_kl_is_differentiable_and_ignores_forbidden_entries() -> None:
    logits_TV = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    ref_TV = torch.randn(3, 4, dtype=torch.float64)
    assert gradcheck(lambda z: full_vocabulary_kl(z, ref_TV), (logits_TV,))
    logits = torch.tensor([[1.0, 2.0, -INF]], requires_grad=True)
    ref = torch.tensor([[0.0, 1.0, 0.0]])
    kl = full_vocabulary_kl(logits, ref)
    kl.sum().backward()
    assert kl.isfinite().all()
    assert logits.grad.isfinite().all()
    assert full_vocabulary_kl(ref, logits).item() == INF


def test_k3_keeps_its_digits_when_the_policies_nearly_agree() -> None:
    kl_T = kl_estimate(torch.tensor([-1e-4]), torch.tensor([0.0]), "k3")
    assert kl_T.item() == pytest.approx(math.expm1(1e-4) - 1e-4, rel=1e-2)


def test_an_unknown_estimate_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"one of k1, .*, got 'full'; full_vocabulary_kl"):
        kl_estimate(torch.zeros(1), torch.zeros(1), "full")


@pytest.mark.parametrize("kind", KL_KINDS)
def test_the_penalty_is_taken_off_sampled_tokens_only(kind: str) -> None:
    mask = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 0, 0]])
    rewards = torch.tensor([[0.0, 0, 1], [0, 0, 0], [2, 0, 0]])
    log_probs = torch.tensor([[-1.0, float("nan"), -2.0], [-INF] * 3, [-3.0, 0, 0]])
    ref = torch.tensor([[-1.5, 0.0, -1.0], [0.0] * 3, [-3.5, 0, 0]])
    penalised, mean_kl = apply_kl_penalty(rewards, log_probs, ref, mask, 0.1, kind=kind)
    kl_T = kl_estimate(torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([-1.5, -1.0, -3.5]), kind)
    expected = torch.tensor([[0.0, 0, 1], [0, 0, 0], [2, 0, 0]])
    expected[mask.bool()] -= 0.1 * kl_T
    torch.testing.assert_close(penalised, expected)
    # Rows count once each, however long; a row without tokens does not count.
    assert mean_kl == pytest.approx(((kl_T[0] + kl_T[1]) / 2 + kl_T[2]).item() / 2)


def test_the_penalty_carries_no_gradient_and_checks_shapes() -> None:
    log_prob_T = torch.zeros(2, requires_grad=True)
    reward_T, _ = kl_in_rewards(
        torch.zeros(2), log_prob_T, torch.ones(2), torch.tensor([2]), kl_coef=1.0
    )
    assert not reward_T.requires_grad
    with pytest.raises(StreamError, match="must have one shape"):
        kl_in_rewards(
            torch.zeros(2), torch.zeros(3), torch.zeros(2), torch.tensor([2]), kl_coef=1.0
        )


def test_the_controller_of_the_documents_moves_towards_its_target() -> None:
    controller = KLController(init_kl_coef=0.01, target_kl=0.01, adaptive=True)
    assert controller.update(current_kl=0.015, n_steps=1024) > 0.01
    for _ in range(500):
        controller.update(current_kl=torch.tensor(0.001), n_steps=1024)
    assert controller.kl_coef < 0.01


def test_a_fixed_controller_stays_and_horizon_slows_an_adaptive_one() -> None:
    fixed = KLController(init_kl_coef=0.01, target_kl=0.01, adaptive=False)
    assert fixed.update(5.0, 1000) == 0.01
    fast = KLController(0.1, 1.0, True, horizon=1_000)
    slow = KLController(0.1, 1.0, True, horizon=10_000)
    assert fast.update(2.0, 100) > slow.update(2.0, 100) > 0.1


def test_a_huge_batch_cannot_turn_the_sign() -> None:
    controller = KLController(0.1, 1.0, True, horizon=10)
    assert controller.update(0.0, 1_000_000) == pytest.approx(0.08)


def test_a_resumed_controller_goes_on_with_the_same_numbers() -> None:
    first = KLController(0.1, 1.0, True)
    first.update(2.0, 256)
    second = KLController(0.1, 1.0, True)
    second.load_state_dict(first.state_dict())
    assert second.update(2.0, 256) == first.update(2.0, 256)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"init_kl_coef": -1.0}, "init_kl_coef must be at least 0, got -1.0"),
        ({"init_kl_coef": INF}, "init_kl_coef must be at least 0, got inf"),
        ({"target_kl": 0.0}, "target_kl must be above 0, got 0.0"),
        ({"horizon": 0}, "horizon must be above 0, got 0"),
    ],
)
def test_settings_outside_their_range_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        KLController(**settings)


def test_a_kl_that_is_no_number_does_not_reach_the_coefficient() -> None:
    controller = KLController(0.1, 1.0, True)
    with pytest.raises(ConfigError, match="got current_kl=nan"):
        controller.update(float("nan"), 10)
    with pytest.raises(ConfigError, match="n_steps=-1"):
        controller.update(1.0, -1)
    assert controller.kl_coef == 0.1
