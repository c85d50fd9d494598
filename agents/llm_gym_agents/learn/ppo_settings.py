"""What a config means to the parts of PPO: policy loss and estimator."""

from __future__ import annotations

from typing import Any

from llm_gym_agents import algo
from llm_gym_agents.config.training import TrainingConfig


def policy_settings(config: TrainingConfig) -> dict[str, Any]:
    """Return the settings of the policy loss: each end of the clip that was set, else its own."""
    takes = algo.get_policy_loss(config.policy_loss).settings
    settings: dict[str, Any] = {}
    if "clip_ratio" in takes:
        low, high = algo.ClipRange.of(takes["clip_ratio"])
        if config.clip_ratio is not None:
            low = high = config.clip_ratio
        if config.clip_ratio_high is not None:
            high = config.clip_ratio_high
        settings["clip_ratio"] = (low, high)
    return settings


def estimator_settings(spec: algo.AdvantageSpec, config: TrainingConfig) -> dict[str, Any]:
    """Return the settings that the estimator has."""
    known = {
        "gamma": config.gamma,
        "lam": config.gae_lambda,
        "discount": config.discount,
        "whiten": config.whiten_advantages,
        "credit": config.group_credit,
    }
    return {name: value for name, value in known.items() if name in spec.settings}
