"""Clip settings mean what they say, for every loss; the mismatch is told with the cap in use."""

import pytest
import torch

from llm_gym_agents import algo
from llm_gym_agents.learn.ppo import PPO, policy_settings
from llm_gym_agents.model.policy_value import PolicyValueModel
from tests.agents.learn.test_ppo import data, training
from tests.agents.tiny import tiny_model


@pytest.mark.parametrize(
    ("loss", "low", "high", "clip"),
    [
        ("ppo", None, None, (0.2, 0.2)),
        ("ppo", 0.1, None, (0.1, 0.1)),
        ("ppo", None, 0.28, (0.2, 0.28)),
        ("cispo", None, None, (1.0, 0.2)),
        ("cispo", None, 0.3, (1.0, 0.3)),  # the low end is not moved
        ("cispo", 0.2, None, (0.2, 0.2)),  # asked for is asked for, also where it is ppo's own
        ("gspo", None, None, (3e-4, 4e-4)),
        ("gspo", 0.005, 0.01, (0.005, 0.01)),
    ],
)
def test_each_end_that_was_set_is_used_and_the_other_is_the_losss_own(loss, low, high, clip):
    config = training(policy_loss=loss, clip_ratio=low, clip_ratio_high=high)
    assert policy_settings(config)["clip_ratio"] == clip


@pytest.mark.parametrize("cap", [1.0, 1.5, None])
def test_the_mismatch_is_told_under_the_weights_in_use(cap):
    batch = data()
    batch.sampler_log_prob_T = batch.sampler_log_prob_T - 3.0
    ppo = PPO(PolicyValueModel(tiny_model()), training(importance_cap=cap, learning_rate=1e-9))
    found = ppo.update(batch)
    old = batch.sampler_log_prob_T + ppo.trained["ratios"].log()
    wanted = algo.mismatch_metrics(old, batch.sampler_log_prob_T, cap=cap)
    assert found["mismatch/truncated"] == pytest.approx(float(wanted["mismatch/truncated"]))
    if cap is None:
        assert found["mismatch/truncated"] == 0.0
        assert found["mismatch/ess"] == pytest.approx(1.0)
    else:
        ratios = ppo.trained["ratios"]
        assert found["mismatch/truncated"] == pytest.approx(float((ratios > cap).float().mean()))
        weights = ratios.clamp(max=cap)
        assert found["mismatch/ess"] == pytest.approx(
            float(weights.mean() ** 2 / weights.square().mean()), rel=1e-4
        )
    assert torch.isfinite(ppo.trained["ratios"]).all()
