"""Policy losses: one loss per token, without a mask and before any aggregation.

``ppo`` is the objective of TorchRL's ``ClipPPOLoss`` (a test holds both equal, gradients
included) plus a dual clip. ``TokenObjective`` trains with the real ``ClipPPOLoss``; the function
here is for those who have log-probs and want a loss.

Old log-probs are those of the trainer's own no-grad pass, never the sampler's: see ``mismatch``.

Shapes: T sampled tokens of all episodes, E episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from llm_gym_agents.algo.dtypes import at_least_float32
from llm_gym_agents.algo.errors import StreamError
from llm_gym_agents.algo.losses.aggregate import Aggregation
from llm_gym_agents.algo.losses.ratio import ClipRange, ClipRatio, clipped_loss, token_log_ratio
from llm_gym_agents.algo.registry import Registry, Spec
from llm_gym_agents.algo.segments import segment_mean, spread

# GSPO's ratio is a mean over an episode; e^10 is far outside every sensible clip range.
_GSPO_LOG_RATIO_LIMIT = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyInputs:
    """What a policy loss reads."""

    log_prob_T: Tensor
    """Log-probs of the policy in training; the only entry with a gradient."""
    old_log_prob_T: Tensor
    """Log-probs of the trainer's own pass before the update."""
    advantages_T: Tensor
    lengths_E: Tensor
    """Sampled tokens of each episode."""

    def __post_init__(self) -> None:
        tokens = int(self.lengths_E.sum())
        for name in ("log_prob_T", "old_log_prob_T", "advantages_T"):
            shape = tuple(getattr(self, name).shape)
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
    """How its authors turn token losses into one number."""

    def __call__(self, inputs: PolicyInputs, **settings: Any) -> TokenLoss:
        """The loss of each token of ``inputs``."""
        self.check_settings(settings)
        result = self.function(inputs, **settings)
        shape = inputs.log_prob_T.shape
        # A tensor of another shape would be spread over the tokens, and nobody would notice.
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


POLICY_LOSSES: Registry[PolicyLossSpec] = Registry("a policy loss")

LossT = TypeVar("LossT", bound=Callable[..., TokenLoss])


def register_policy_loss(
    name: str, *, needs_whole_episodes: bool = False, aggregation: Aggregation = "token-mean"
) -> Callable[[LossT], LossT]:
    """Register ``function(inputs, *, setting=default, ...) -> TokenLoss`` under ``name``."""

    def register(function: LossT) -> LossT:
        POLICY_LOSSES.add(
            PolicyLossSpec(
                name=name,
                function=function,
                needs_whole_episodes=needs_whole_episodes,
                aggregation=aggregation,
            )
        )
        return function

    return register


def get_policy_loss(name: str) -> PolicyLossSpec:
    """The policy loss registered as ``name``."""
    return POLICY_LOSSES.get(name)


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

    Each token keeps its own gradient: the value is the episode's ratio, the slope the token's.

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
        clip_ratio: The default low end of 1 is no lower bound, as its authors train.
    """
    log_prob_T = at_least_float32(inputs.log_prob_T)
    log_ratio_T = token_log_ratio(inputs.log_prob_T, inputs.old_log_prob_T).detach()
    ratio_T = log_ratio_T.exp()
    weight_T = ClipRange.of(clip_ratio).clamp(ratio_T)
    return TokenLoss(
        -weight_T * inputs.advantages_T * log_prob_T,
        {
            "policy/clip_fraction": (weight_T != ratio_T).to(ratio_T),
            "policy/kl": -log_ratio_T,
        },
    )


@register_policy_loss("gpg")
def gpg(inputs: PolicyInputs) -> TokenLoss:
    """Plain REINFORCE, -A log pi: on-policy only, since nothing limits the step."""
    log_prob_T = at_least_float32(inputs.log_prob_T)
    log_ratio_T = token_log_ratio(inputs.log_prob_T, inputs.old_log_prob_T)
    return TokenLoss(-inputs.advantages_T * log_prob_T, {"policy/kl": -log_ratio_T.detach()})


def _clipped(
    log_ratio_T: Tensor,
    token_log_ratio_T: Tensor,
    inputs: PolicyInputs,
    clip_ratio: ClipRatio,
    dual_clip: float | None,
) -> TokenLoss:
    clipped = clipped_loss(log_ratio_T, inputs.advantages_T, ClipRange.of(clip_ratio), dual_clip)
    return TokenLoss(
        clipped.loss_T,
        {
            "policy/clip_fraction": clipped.clipped_T.to(log_ratio_T),
            "policy/clip_fraction_lower": clipped.dual_clipped_T.to(log_ratio_T),
            "policy/kl": -token_log_ratio_T.detach(),
        },
    )
