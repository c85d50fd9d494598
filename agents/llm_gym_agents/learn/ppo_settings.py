"""What a config means to the parts of PPO: policy loss, estimator, optimizer."""

from __future__ import annotations

from typing import Any

import torch

from llm_gym_agents import algo
from llm_gym_agents.config.training import TrainingConfig
from llm_gym_agents.learn.model import PolicyValueModel


def policy_settings(config: TrainingConfig) -> dict[str, Any]:
    """Return the settings of the policy loss that were asked for; the rest are its own.

    Losses other than PPO's clip in ranges of their own, so a clip ratio that nobody changed is
    PPO's and not theirs.
    """
    takes = algo.get_policy_loss(config.policy_loss).settings
    settings: dict[str, Any] = {}
    chosen = config.clip_ratio != TrainingConfig().clip_ratio or config.clip_ratio_high is not None
    if "clip_ratio" in takes and (config.policy_loss == "ppo" or chosen):
        high = config.clip_ratio if config.clip_ratio_high is None else config.clip_ratio_high
        settings["clip_ratio"] = (config.clip_ratio, high)
    if "dual_clip" in takes:
        settings["dual_clip"] = config.dual_clip
    return settings


def estimator_settings(spec: algo.AdvantageSpec, config: TrainingConfig) -> dict[str, Any]:
    """Return the settings that the estimator has."""
    known = {
        "gamma": config.gamma,
        "lam": config.lam,
        "discount": config.discount,
        "whiten": config.whiten_advantages,
    }
    return {name: value for name, value in known.items() if name in spec.settings}


def make_optimizer(model: PolicyValueModel, config: TrainingConfig) -> torch.optim.AdamW:
    """Return the optimizer; the critic may have a learning rate of its own."""
    policy = [p for p in model.lm.parameters() if p.requires_grad]
    own = {id(p) for p in model.lm.parameters()}
    critic = [p for p in model.parameters() if id(p) not in own and p.requires_grad]
    value_rate = config.value_learning_rate or config.learning_rate
    groups: list[dict[str, Any]] = [
        {"params": policy, "lr": config.learning_rate, "base_lr": config.learning_rate}
    ]
    if critic:
        groups.append({"params": critic, "lr": value_rate, "base_lr": value_rate})
    return torch.optim.AdamW(
        groups,
        betas=(config.adam_beta1, config.adam_beta2),
        weight_decay=config.weight_decay,
    )
