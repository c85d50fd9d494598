"""KL estimates, the penalty in rewards, and the controllers of KL and entropy."""

import math

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo import KLController, StreamError, apply_kl_penalty, kl_in_rewards, kl_loss

INF = float("inf")


def test_the_loss_averages_to_the_exact_kl_and_its_gradient():
    # Over a small vocabulary the expectation is a sum.
    torch.manual_seed(0)
    logits = (0.5 * torch.randn(5, dtype=torch.float64)).requires_grad_()
    ref = (0.5 * torch.randn(5, dtype=torch.float64)).log_softmax(-1)
    log_p = logits.log_softmax(-1)
    exact = (log_p.exp() * (log_p - ref)).sum()
    (exact_gradient,) = torch.autograd.grad(exact, logits, retain_graph=True)
    estimate = (log_p.exp().detach() * kl_loss(log_p, ref)).sum()
    torch.testing.assert_close(estimate, exact)
    torch.testing.assert_close(torch.autograd.grad(estimate, logits)[0], exact_gradient)


def test_k3_keeps_its_digits_when_the_policies_nearly_agree():
    kl_T = kl_loss(torch.tensor([-1e-4]), torch.tensor([0.0]))
    assert kl_T.item() == pytest.approx(math.expm1(1e-4) - 1e-4, rel=1e-2)


def test_the_penalty_is_taken_off_sampled_tokens_only():
    mask = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 0, 0]])
    rewards = torch.tensor([[0.0, 0, 1], [0, 0, 0], [2, 0, 0]])
    log_probs = torch.tensor([[-1.0, float("nan"), -2.0], [-INF] * 3, [-3.0, 0, 0]])
    ref = torch.tensor([[-1.5, 0.0, -1.0], [0.0] * 3, [-3.5, 0, 0]])
    given = {"token_level_rewards": rewards, "log_probs": log_probs, "ref_log_probs": ref}
    penalised, mean_kl = apply_kl_penalty(**given, response_mask=mask, kl_coef=0.1)
    expected = torch.tensor([[-0.05, 0, 1.1], [0, 0, 0], [1.95, 0, 0]])
    torch.testing.assert_close(penalised, expected)
    # Rows count once each, however long; a row without tokens does not count.
    assert mean_kl == pytest.approx(((0.5 - 1.0) / 2 + 0.5) / 2)


def test_the_penalty_carries_no_gradient_and_checks_shapes():
    log_prob_T = torch.zeros(2, requires_grad=True)
    reward_T, _ = kl_in_rewards(
        torch.zeros(2), log_prob_T, torch.ones(2), torch.tensor([2]), kl_coef=1.0
    )
    assert not reward_T.requires_grad
    with pytest.raises(StreamError, match="shape"):
        kl_in_rewards(
            torch.zeros(2), torch.zeros(3), torch.zeros(2), torch.tensor([2]), kl_coef=1.0
        )


def test_a_controller_follows_the_kl_unless_it_is_fixed_or_gets_no_number():
    controller = KLController(init_kl_coef=0.1, target_kl=6.0, horizon=10_000)
    assert controller.update(12.0, 256) == pytest.approx(0.100512, abs=1e-12)  # as verl
    assert controller.update(0.0, 256) == pytest.approx(0.09999737856, abs=1e-12)
    assert KLController(0.1, 1.0, horizon=10).update(0.0, 1_000_000) == pytest.approx(0.08)
    assert KLController(0.01, 0.01, adaptive=False).update(5.0, 1000) == 0.01
    controller = KLController(0.1, 1.0)
    for kl, steps, what in ((float("nan"), 10, "current_kl"), (1.0, -1, "n_steps")):
        with pytest.raises(ConfigError, match=what):
            controller.update(kl, steps)
    assert controller.kl_coef == 0.1


@pytest.mark.parametrize(
    "settings", [{"init_kl_coef": -1.0}, {"init_kl_coef": INF}, {"target_kl": 0.0}, {"horizon": 0}]
)
def test_settings_outside_their_range_are_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        KLController(**settings)
