"""The ratio of the new policy to the old one, and how PPO clips it.

Shapes: T sampled tokens of all episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from llm_gym.errors import ConfigError
from llm_gym_agents.algo.dtypes import at_least_float32

# e^20 is 5e8. Past it a float32 ratio soon overflows, and inf * 0 is NaN in the gradient.
LOG_RATIO_LIMIT = 20.0

ClipRatio = float | Sequence[float]


class ClipRange(NamedTuple):
    """How far the ratio may move below and above 1."""

    low: float
    high: float

    @classmethod
    def of(cls, clip_ratio: ClipRatio) -> ClipRange:
        """The range of one number for both sides, or of a pair ``(low, high)``.

        >>> ClipRange.of(0.2)
        ClipRange(low=0.2, high=0.2)
        """
        ends = (clip_ratio,) * 2 if isinstance(clip_ratio, float | int) else tuple(clip_ratio)
        if not (len(ends) == 2 and 0.0 <= ends[0] <= 1.0 and ends[1] >= 0.0):
            raise ConfigError(
                "clip_ratio must be one number or a low end in [0, 1] and a high end of at least "
                f"0, got {clip_ratio}"
            )
        return cls(*ends)

    def clamp(self, ratio_T: Tensor) -> Tensor:
        """``ratio_T`` inside the range around 1."""
        return ratio_T.clamp(1.0 - self.low, 1.0 + self.high)


class Clipped(NamedTuple):
    """PPO's pessimistic loss per token, and where its clips act."""

    loss_T: Tensor
    clipped_T: Tensor
    """True where the clipped ratio is the worse one, so that the token has no gradient."""
    dual_clipped_T: Tensor
    """True where the dual clip bounds the loss."""


def token_log_ratio(log_prob_T: Tensor, old_log_prob_T: Tensor) -> Tensor:
    """log(new / old) of each token, within ±20."""
    log_ratio_T = at_least_float32(log_prob_T) - at_least_float32(old_log_prob_T).detach()
    return log_ratio_T.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def clipped_loss(
    log_ratio_T: Tensor, advantages_T: Tensor, clip: ClipRange, dual_clip: float | None
) -> Clipped:
    """max(-A r, -A clip(r)), and for A < 0 at most ``-A * dual_clip``."""
    ratio_T = log_ratio_T.exp()
    plain_T = -advantages_T * ratio_T
    clipped_T = -advantages_T * clip.clamp(ratio_T)
    worse_T = torch.maximum(plain_T, clipped_T)
    loss_T, dual_clipped_T = bound_negative(worse_T, advantages_T, dual_clip)
    return Clipped(loss_T, (clipped_T > plain_T).detach(), dual_clipped_T)


def bound_negative(
    loss_T: Tensor, advantages_T: Tensor, dual_clip: float | None
) -> tuple[Tensor, Tensor]:
    """``loss_T`` bounded by ``-A * dual_clip`` where A < 0, and where the bound acts.

    For A < 0 the plain clip has no upper end: a token whose ratio exploded would dominate.
    """
    if dual_clip is None:
        return loss_T, torch.zeros_like(loss_T, dtype=torch.bool)
    if not dual_clip > 1.0:
        raise ConfigError(f"dual_clip must be above 1, got {dual_clip}; None turns it off")
    bound_T = -advantages_T * dual_clip
    acts_T = (advantages_T < 0) & (loss_T > bound_T)
    return torch.where(acts_T, bound_T, loss_T), acts_T.detach()
