"""TorchRL's ``ClipPPOLoss`` on packed tokens.

``ClipPPOLoss`` asks its actor for a distribution and the distribution for log-probs and entropy.
A trunk that reads packed sequences already has both, per sampled token, from a head that never
holds all logits; ``TokenDistribution`` hands them over. Batches hold no padding and losses come
back per token, so that the caller can weigh, bound and aggregate them.

Shapes: T sampled tokens of all episodes.
"""

from __future__ import annotations

import torch
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModuleBase,
)
from torch import Tensor
from torchrl.objectives import ClipPPOLoss

from llm_gym.errors import ConfigError
from llm_gym_agents.algo.dtypes import at_least_float32
from llm_gym_agents.algo.losses.ratio import LOG_RATIO_LIMIT, ClipRange, ClipRatio
from llm_gym_agents.algo.losses.value_loss import check_value_clip


class TokenDistribution(torch.distributions.Distribution):
    """Log-prob and entropy of each sampled token, computed elsewhere.

    The log-prob is held within ±20 of the old one: past that the ratio overflows float32 and
    the gradient of a token with advantage 0 becomes NaN.
    """

    arg_constraints = {}

    def __init__(self, log_prob: Tensor, entropy: Tensor, old_log_prob: Tensor) -> None:
        old_T = at_least_float32(old_log_prob)
        self._log_prob_T = at_least_float32(log_prob).clamp(
            old_T - LOG_RATIO_LIMIT, old_T + LOG_RATIO_LIMIT
        )
        self._entropy_T = at_least_float32(entropy)
        super().__init__(batch_shape=log_prob.shape, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-prob of the tokens it was built for; ``value`` is those tokens."""
        return self._log_prob_T

    def entropy(self) -> Tensor:
        return self._entropy_T


def make_clip_ppo_loss(
    trunk: TensorDictModuleBase | None,
    critic: TensorDictModuleBase | None,
    *,
    clip_ratio: ClipRatio = 0.2,
    cliprange_value: float | None = 0.5,
    entropy_coef: float = 0.0,
    value_coef: float = 1.0,
) -> ClipPPOLoss:
    """A ``ClipPPOLoss`` that reads packed tokens and gives one loss per token.

    Its batch holds ``token`` [T], ``old_log_prob`` [T], ``advantage`` [T, 1], and with a critic
    ``value_target`` and the old ``value`` [T, 1]. This is the one place that says how TorchRL's
    own names (``action``, ``sample_log_prob``, ``state_value``) are to be read.

    Args:
        trunk: Writes ``token_log_prob`` [T] and ``token_entropy`` [T], and whatever the critic
            reads. None if the batch holds both already.
        critic: Writes ``value`` [T, 1] from what the trunk wrote, so that one forward pass
            serves both. None to train without a critic.
        clip_ratio: One number, or ``(low, high)``.
        cliprange_value: How far a value may move from the old one; None for no clip.
        entropy_coef: Weight of the entropy bonus.
        value_coef: Weight of ½ (V - R)².
    """
    check_value_clip(cliprange_value)
    clip = ClipRange.of(clip_ratio)
    if clip.low >= 1.0:
        raise ConfigError(
            f"ClipPPOLoss needs a low end of clip_ratio below 1, got {clip_ratio}; "
            "0.999 is as good as no lower bound"
        )
    head = ProbabilisticTensorDictModule(
        in_keys={
            "log_prob": "token_log_prob",
            "entropy": "token_entropy",
            "old_log_prob": "old_log_prob",
        },
        out_keys=["token"],
        distribution_class=TokenDistribution,
        return_log_prob=True,
        log_prob_key="old_log_prob",
    )
    modules = [head] if trunk is None else [trunk, head]
    loss = ClipPPOLoss(
        ProbabilisticTensorDictSequential(*modules),
        critic,
        clip_epsilon=clip.low if clip.low == clip.high else tuple(clip),
        clip_value=None if critic is None else cliprange_value,
        entropy_coeff=entropy_coef,
        critic_coeff=None if critic is None else 0.5 * value_coef,
        loss_critic_type="l2",
        # Whitening belongs to the whole batch, before the epochs.
        normalize_advantage=False,
        reduction="none",
        # Keeps the modules as they are, which DDP and FSDP need.
        functional=False,
    )
    loss.set_keys(action="token", sample_log_prob="old_log_prob", value="value")
    return loss
