"""KL estimates, the penalty in rewards, and the controllers of KL and entropy."""

from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import gradcheck

from llm_gym.core.errors import ConfigError
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
    with pytest.raises(ConfigError, match="full_vocabulary_kl"):
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
    with pytest.raises(StreamError, match="shape"):
        kl_in_rewards(
            torch.zeros(2), torch.zeros(3), torch.zeros(2), torch.tensor([2]), kl_coef=1.0
        )


def test_a_huge_batch_cannot_turn_the_sign() -> None:
    controller = KLController(0.1, 1.0, True, horizon=10)
    assert controller.update(0.0, 1_000_000) == pytest.approx(0.08)


@pytest.mark.parametrize(
    "settings", [{"init_kl_coef": -1.0}, {"init_kl_coef": INF}, {"target_kl": 0.0}, {"horizon": 0}]
)
def test_settings_outside_their_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        KLController(**settings)


def test_a_kl_that_is_no_number_does_not_reach_the_coefficient() -> None:
    controller = KLController(0.1, 1.0, True)
    with pytest.raises(ConfigError, match="current_kl"):
        controller.update(float("nan"), 10)
    with pytest.raises(ConfigError, match="n_steps"):
        controller.update(1.0, -1)
    assert controller.kl_coef == 0.1


def test_a_fixed_controller_stays() -> None:
    assert KLController(init_kl_coef=0.01, target_kl=0.01, adaptive=False).update(5.0, 1000) == 0.01
