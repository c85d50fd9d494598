"""Policy losses: one loss per token, without a mask and before any aggregation.

``ppo`` is the objective of TorchRL's ``ClipPPOLoss`` (a test checks that both are equal, gradients
included) plus a dual clip. ``TokenObjective`` trains with the real ``ClipPPOLoss``; the function
here computes the loss from given log-probs.

Old log-probs are those of the trainer's own no-grad pass, never the sampler's: see ``mismatch``.

Shapes: T sampled tokens of all episodes, E episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo.losses.aggregate import Aggregation
from llm_gym_agents.algo.registry import FunctionT, Registry, Spec
from llm_gym_agents.algo.tensor_ops import StreamError, at_least_float32, segment_mean, spread

# GSPO's ratio is a mean over an episode; e^10 is far outside every sensible clip range.
_GSPO_LOG_RATIO_LIMIT = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyInputs:
    """The inputs of a policy loss."""

    log_prob_T: Tensor
    """Log-probs of the policy in training; the only entry with a gradient."""
    old_log_prob_T: Tensor
    """Log-probs of the trainer's own pass before the update."""
    advantages_T: Tensor
    lengths_E: Tensor
    """Sampled tokens of each episode."""
    sampler_log_prob_T: Tensor | None = None
    """Log-probs of the engine that sampled."""
    ref_log_prob_T: Tensor | None = None
    """Log-probs of the model that RL began with; None unless ``training.kl`` is set."""
    value_T: Tensor | None = None
    """The critic's values before the update; None without a critic."""
    entropy_T: Tensor | None = None
    """Entropies of the policy in training, without a gradient."""
    version_T: Tensor | None = None
    """Version of the weights that sampled each token."""

    def __post_init__(self) -> None:
        tokens = int(self.lengths_E.sum())
        for name, value in vars(self).items():
            shape = (tokens,) if value is None or name == "lengths_E" else tuple(value.shape)
            if shape != (tokens,):
                raise StreamError(
                    f"{name} must have shape ({tokens},), got {shape}; "
                    "a policy loss reads one entry per sampled token"
                )


class TokenLoss(NamedTuple):
    """A loss per token and what to log about it."""

    loss_T: Tensor
    metrics_T: dict[str, Tensor]
    """Per token and detached; their mean over a batch is the metric."""


@dataclass(frozen=True, kw_only=True)
class PolicyLossSpec(Spec):
    """A registered policy loss. Call it with inputs and its settings."""

    needs_whole_episodes: bool = False
    """A micro-batch must not cut an episode, because tokens of an episode share a ratio."""
    aggregation: Aggregation = "token-mean"
    """How its authors aggregate token losses to one number."""

    def __call__(self, inputs: PolicyInputs, **settings: Any) -> TokenLoss:
        self.check_settings(settings)
        result = self.run(inputs, **settings)
        shape = inputs.log_prob_T.shape
        # A tensor of another shape would be broadcast over the tokens without an error.
        if not isinstance(result, TokenLoss) or any(
            getattr(each, "shape", None) != shape
            for each in (result.loss_T, *result.metrics_T.values())
        ):
            raise StreamError(
                f"{self.name!r} must return a TokenLoss, its loss and its metrics each with a "
                f"number for every one of the {shape.numel()} sampled tokens"
            )
        learns = torch.is_grad_enabled() and inputs.log_prob_T.requires_grad
        if learns and not result.loss_T.requires_grad:
            raise StreamError(
                f"{self.name!r} must return a loss that depends on inputs.log_prob_T, got one "
                "without a gradient; nothing would be learned from it"
            )
        return result


POLICY_LOSSES: Registry[PolicyLossSpec] = Registry("a policy loss", PolicyLossSpec)
"""Policy losses by name."""
get_policy_loss = POLICY_LOSSES.get
"""Returns the policy loss registered under a name."""


def register_policy_loss(
    name: str, *, needs_whole_episodes: bool = False, aggregation: Aggregation = "token-mean"
) -> Callable[[FunctionT], FunctionT]:
    """Register ``function(inputs, *, setting=default, ...) -> TokenLoss`` under ``name``."""
    about = {"needs_whole_episodes": needs_whole_episodes, "aggregation": aggregation}
    return POLICY_LOSSES.register(name, **about)


@register_policy_loss("ppo")
def ppo(
    inputs: PolicyInputs, *, clip_ratio: ClipRatio = 0.2, dual_clip: float | None = 3.0
) -> TokenLoss:
    """PPO's clipped objective.

    Args:
        inputs: See ``PolicyInputs``.
        clip_ratio: One number, or ``(low, high)``; a higher high end ("clip-higher", DAPO) lets
            unlikely tokens grow and keeps entropy up.
        dual_clip: Bounds the loss of a token with a negative advantage; None for no bound.
    """
    log_ratio_T = token_log_ratio(inputs.log_prob_T, inputs.old_log_prob_T)
    return _clipped(log_ratio_T, log_ratio_T, inputs, clip_ratio, dual_clip)


@register_policy_loss("gspo", needs_whole_episodes=True, aggregation="seq-mean-token-mean")
def gspo(inputs: PolicyInputs, *, clip_ratio: ClipRatio = (3e-4, 4e-4)) -> TokenLoss:
    """PPO's objective with one ratio per episode, the geometric mean of its tokens' ratios.

    Each token keeps its own gradient: the value is the episode's ratio, the gradient the token's.

    Args:
        inputs: Whole episodes.
        clip_ratio: Much narrower than PPO's, because a mean over an episode hardly moves.
    """
    log_prob_T = at_least_float32(inputs.log_prob_T)
    old_T = at_least_float32(inputs.old_log_prob_T).detach()
    mean_T = spread(segment_mean((log_prob_T - old_T).detach(), inputs.lengths_E), inputs.lengths_E)
    log_ratio_T = (log_prob_T - log_prob_T.detach() + mean_T).clamp(max=_GSPO_LOG_RATIO_LIMIT)
    token_T = token_log_ratio(inputs.log_prob_T, inputs.old_log_prob_T)
    return _clipped(log_ratio_T, token_T, inputs, clip_ratio, dual_clip=None)


@register_policy_loss("cispo")
def cispo(inputs: PolicyInputs, *, clip_ratio: ClipRatio = (1.0, 0.2)) -> TokenLoss:
    """REINFORCE weighted by the clipped ratio, so that a clipped token still has a gradient.

    Args:
        inputs: See ``PolicyInputs``.
        clip_ratio: The default low end of 1 means no lower bound, as in the paper.
    """
    log_prob_T = at_least_float32(inputs.log_prob_T)
    log_ratio_T = token_log_ratio(inputs.log_prob_T, inputs.old_log_prob_T).detach()
    ratio_T = log_ratio_T.exp()
    weight_T = ClipRange.of(clip_ratio).clamp(ratio_T)
    return TokenLoss(
        -weight_T * inputs.advantages_T * log_prob_T,
        {"policy/clip_fraction": (weight_T != ratio_T).to(ratio_T), "policy/kl": -log_ratio_T},
    )


def _clipped(
    log_ratio_T: Tensor,
    token_log_ratio_T: Tensor,
    inputs: PolicyInputs,
    clip_ratio: ClipRatio,
    dual_clip: float | None,
) -> TokenLoss:
    """max(-A r, -A clip(r)), and for A < 0 at most ``-A * dual_clip``."""
    ratio_T, advantages_T = log_ratio_T.exp(), inputs.advantages_T
    plain_T = -advantages_T * ratio_T
    clipped_T = -advantages_T * ClipRange.of(clip_ratio).clamp(ratio_T)
    worse_T = torch.maximum(plain_T, clipped_T)
    loss_T, bounded_T = bound_negative(worse_T, advantages_T, dual_clip)
    return TokenLoss(
        loss_T,
        {
            # If the clipped ratio gives the larger loss, the token has no gradient.
            "policy/clip_fraction": (clipped_T > plain_T).detach().to(log_ratio_T),
            "policy/clip_fraction_lower": bounded_T.to(log_ratio_T),
            "policy/kl": -token_log_ratio_T.detach(),
        },
    )


# --- the clipped ratio ----------------------------------------------------------------

# e^20 is 5e8. Far beyond it a float32 ratio overflows, and inf * 0 is NaN in the gradient.
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
        return ratio_T.clamp(1.0 - self.low, 1.0 + self.high)


def token_log_ratio(log_prob_T: Tensor, old_log_prob_T: Tensor) -> Tensor:
    """log(new / old) of each token, within ±20."""
    log_ratio_T = at_least_float32(log_prob_T) - at_least_float32(old_log_prob_T).detach()
    return log_ratio_T.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def bound_negative(
    loss_T: Tensor, advantages_T: Tensor, dual_clip: float | None
) -> tuple[Tensor, Tensor]:
    """``loss_T`` bounded by ``-A * dual_clip`` where A < 0, and where the bound acts.

    For A < 0 the plain clip has no upper bound: a token with a huge ratio would dominate.
    """
    if dual_clip is None:
        return loss_T, torch.zeros_like(loss_T, dtype=torch.bool)
    if not dual_clip > 1.0:
        raise ConfigError(f"dual_clip must be above 1, got {dual_clip}; None turns it off")
    bound_T = -advantages_T * dual_clip
    acts_T = (advantages_T < 0) & (loss_T > bound_T)
    return torch.where(acts_T, bound_T, loss_T), acts_T.detach()
