"""The critic's loss, with PPO's clip around the old values.

Shapes: T sampled tokens of all episodes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo.losses.policy_loss import TokenLoss
from llm_gym_agents.algo.tensor_ops import StreamError, at_least_float32


def value_loss(
    value_T: Tensor,
    returns_T: Tensor,
    old_value_T: Tensor,
    *,
    cliprange_value: float | None = 0.5,
) -> TokenLoss:
    """½ max((V - R)², (clip(V) - R)²) of each token, V clipped to within a range of the old V.

    Args:
        value_T: Values of the critic in training.
        returns_T: Targets from before the update.
        old_value_T: Values from before the update.
        cliprange_value: How far V may move from the old V; None for no clip.
    """
    if not value_T.shape == returns_T.shape == old_value_T.shape:
        raise StreamError(
            "values, returns and old values must have one shape, "
            f"got {tuple(value_T.shape)}, {tuple(returns_T.shape)} and "
            f"{tuple(old_value_T.shape)}"
        )
    check_value_clip(cliprange_value)
    value_T = at_least_float32(value_T)
    returns_T = at_least_float32(returns_T).detach()
    plain_T = (value_T - returns_T).square()
    if cliprange_value is None:
        return TokenLoss(0.5 * plain_T, {"value/clip_fraction": torch.zeros_like(plain_T)})
    old_T = at_least_float32(old_value_T).detach()
    near_T = value_T.clamp(old_T - cliprange_value, old_T + cliprange_value)
    clipped_T = (near_T - returns_T).square()
    acts_T = (clipped_T > plain_T).to(plain_T)
    return TokenLoss(0.5 * torch.maximum(plain_T, clipped_T), {"value/clip_fraction": acts_T})


def check_value_clip(cliprange_value: float | None) -> None:
    """Raise unless ``cliprange_value`` is None or above 0."""
    if cliprange_value is not None and not cliprange_value > 0.0:
        raise ConfigError(
            f"cliprange_value must be above 0, got {cliprange_value}; None turns the clip off"
        )
