from __future__ import annotations

import math

import pytest
import torch

from llm_gym.errors import ConfigError
from llm_gym_agents.algo import StreamError, importance_weights, mismatch_metrics

OLD = torch.tensor([-1.0, -2.0, -1.0, -0.5])
SAMPLER = torch.tensor([-1.0, -1.5, -1.4, -5.0])


def test_weights_are_truncated_and_carry_no_gradient() -> None:
    old_T = OLD.clone().requires_grad_()
    weights_T = importance_weights(old_T, SAMPLER)
    assert weights_T.tolist() == pytest.approx([1.0, math.exp(-0.5), math.exp(0.4), 2.0])
    assert not weights_T.requires_grad
    assert importance_weights(OLD, SAMPLER, cap=1.2).max().item() == pytest.approx(1.2)


def test_an_engine_that_agrees_weighs_nothing() -> None:
    assert importance_weights(OLD, OLD).tolist() == [1.0] * 4
    metrics = mismatch_metrics(OLD, OLD)
    assert metrics["mismatch/kl"] == 0.0
    assert metrics["mismatch/ess"] == 1.0
    assert metrics["mismatch/truncated"] == 0.0


def test_metrics_say_how_far_apart_they_are() -> None:
    metrics = {k: v.item() for k, v in mismatch_metrics(OLD, SAMPLER).items()}
    ratios = [1.0, math.exp(-0.5), math.exp(0.4), math.exp(4.5)]
    weights = [min(ratio, 2.0) for ratio in ratios]
    assert metrics == pytest.approx(
        {
            # k3 of one token is capped at 10, so the last one does not hide the others.
            "mismatch/kl": (math.exp(-0.5) - 0.5 + math.exp(0.4) - 1.4 + 10.0) / 4,
            "mismatch/log_prob_mean": (0.5 + 0.4 + 4.5) / 4,
            "mismatch/log_prob_max": 4.5,
            "mismatch/ratio_mean": sum(ratios) / 4,
            "mismatch/ratio_max": ratios[3],
            "mismatch/truncated": 0.25,
            "mismatch/ess": sum(weights) ** 2 / (4 * sum(w * w for w in weights)),
        },
        rel=1e-5,
    )
    assert mismatch_metrics(OLD, SAMPLER, cap=1.2)["mismatch/truncated"] == 0.5


def test_a_token_the_sampler_called_impossible_has_the_largest_weight() -> None:
    weights_T = importance_weights(torch.tensor([-1.0]), torch.tensor([-float("inf")]))
    assert weights_T.tolist() == [2.0]


def test_no_tokens_have_metrics_too() -> None:
    metrics = mismatch_metrics(torch.zeros(0), torch.zeros(0))
    assert all(value.item() == 0.0 for value in metrics.values())


def test_missing_log_probs_and_bad_caps_are_refused() -> None:
    with pytest.raises(StreamError, match="got 1 of 2 without a ratio"):
        importance_weights(torch.zeros(2), torch.tensor([0.0, float("nan")]))
    with pytest.raises(StreamError, match=r"got \(3,\) for \(2,\)"):
        importance_weights(torch.zeros(2), torch.zeros(3))
    with pytest.raises(ConfigError, match="cap must be above 0, got 0"):
        importance_weights(OLD, SAMPLER, cap=0.0)
