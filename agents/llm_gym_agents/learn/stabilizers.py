"""``Stabilizers``: what keeps a long run from going wrong, as far as an update has a part in it.

Entropy that is held at a target, a critic in units of the returns, episodes that are left out. All
of them are off unless the config turns them on, and then change no number.

Shapes: T sampled tokens, E episodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from safetensors.torch import save_file
from tensordict import TensorDict
from torch import Tensor, nn

from llm_gym.errors import LLMGymError
from llm_gym_agents import algo
from llm_gym_agents.algo.losses.kl import k3_of_log_ratio
from llm_gym_agents.algo.losses.policy_loss import LOG_RATIO_LIMIT
from llm_gym_agents.algo.tensor_ops import segment_sum, spread
from llm_gym_agents.batch.ppo_batch import PPOBatch
from llm_gym_agents.batch.rollout_data import RolloutData
from llm_gym_agents.config.schema import TrainingConfig
from llm_gym_agents.learn.scoring import Scores
from llm_gym_agents.model.policy_value import PolicyValueModel


class Stabilizers:
    """The guards of an update, and what of them a checkpoint keeps.

    Args:
        config: Says which are on.
        model: Whose value head they scale.
    """

    def __init__(self, config: TrainingConfig, model: PolicyValueModel) -> None:
        self.config = config
        self.entropy = algo.EntropyController(config.entropy_coef, config.entropy_target)
        self.value_scale: ValueScale | None = None
        if config.normalise_values and model.value_head is not None:
            self.value_scale = ValueScale(model.value_head)
        self.kept_E: Tensor | None = None
        """Which episodes of the batch are learned from; None for all."""

    def unscale(self, scores: Scores) -> Scores:
        """Return ``scores`` with values of true returns, as advantages need them."""
        return scores if self.value_scale is None else self.value_scale.true(scores)

    def before_update(self, data: RolloutData, scores: Scores, advantages: algo.Advantages) -> None:
        """Take in a batch before it is learned from."""
        if self.value_scale is not None:
            self.value_scale.learn(advantages.returns_T)
        self.kept_E = episode_mask(self.config, data, scores.log_prob_T)

    def scale(self, value_T: Tensor) -> Tensor:
        """Return true values in the units that the critic learns in."""
        return value_T if self.value_scale is None else self.value_scale.scaled(value_T)

    def after_update(self, entropy: float) -> dict[str, float]:
        """Take in how an update went; return what the guards did in it."""
        found = {} if self.value_scale is None else self.value_scale.metrics
        if self.config.entropy_target is not None:
            found["policy/entropy_coef"] = self.entropy.entropy_coef
            self.entropy.update(entropy)
        if self.config.mask_truncated_replies or self.config.max_sampler_kl is not None:
            kept_E = self.kept_E
            found["train/left_out"] = 0.0 if kept_E is None else 1.0 - float(kept_E.float().mean())
        return found

    def state(self) -> dict[str, Any]:
        """Return what the next update depends on."""
        scale = None if self.value_scale is None else dict(self.value_scale.state_dict())
        return {"entropy": dict(self.entropy.state_dict()), "value_scale": scale}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``; a guard that was off then begins anew."""
        self.entropy.load_state_dict(state["entropy"])
        if self.value_scale is not None and state["value_scale"] is not None:
            self.value_scale.load_state_dict(state["value_scale"])


# --- episode mask ---------------------------------------------------------------------


def episode_mask(
    config: TrainingConfig, data: RolloutData, old_log_prob_T: Tensor | None
) -> Tensor | None:
    """Return which episodes are learned from, per episode; None where all of them are.

    Args:
        config: Says which are left out.
        data: The batch.
        old_log_prob_T: What the trainer's own pass says of each token before the update.
    """
    kept_E = torch.ones(len(data.lengths_E), dtype=torch.bool)
    if config.mask_truncated_replies and data.cut_E is not None:
        kept_E &= ~data.cut_E
    if config.max_sampler_kl is not None and old_log_prob_T is not None:
        gap_E = sampler_kl(old_log_prob_T, data.sampler_log_prob_T, data.lengths_E)
        kept_E &= gap_E <= config.max_sampler_kl
    return None if bool(kept_E.all()) else kept_E


def sampler_kl(old_log_prob_T: Tensor, sampler_log_prob_T: Tensor, lengths_E: Tensor) -> Tensor:
    """Return how far the sampler was from the trainer in each episode: the mean k3 of its tokens.

    >>> old, sampler = torch.tensor([-1.0, -1.0, -1.0]), torch.tensor([-1.0, -1.0, -3.0])
    >>> sampler_kl(old, sampler, torch.tensor([2, 1]))
    tensor([0.0000, 4.3891])
    """
    log_ratio_T = (old_log_prob_T - sampler_log_prob_T).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return segment_sum(k3_of_log_ratio(log_ratio_T), lengths_E) / lengths_E.clamp(min=1)


def masked_token_weights(
    lengths_M: Tensor,
    kept_M: Tensor | None,
    aggregation: algo.Aggregation,
    norm_length: float | None,
) -> Tensor:
    """Return the share in the loss of each token of an optimizer step.

    >>> masked_token_weights(torch.tensor([1, 2]), torch.tensor([False, True]), "token-mean", None)
    tensor([0.0000, 0.5000, 0.5000])
    """
    if kept_M is None:
        return algo.token_weights(lengths_M, aggregation, norm_length=norm_length)
    counts = algo.BatchCounts.of(lengths_M * kept_M)
    weights_T = algo.token_weights(lengths_M, aggregation, counts=counts, norm_length=norm_length)
    return weights_T * spread(kept_M, lengths_M)


# --- value scale (PopArt) -------------------------------------------------------------

DECAY = 0.9
"""Share of the old statistics that a batch leaves, once there were a few."""
LEAST_SPREAD = 1e-4


class ValueScaleState(TypedDict):
    """What a checkpoint must hold to go on with the same units."""

    mean: float
    square: float
    batches: int


class ValueScale:
    """Running mean and spread of returns, and the value head in their units.

    Args:
        head: The value head, changed in place when the units change.
    """

    def __init__(self, head: nn.Linear) -> None:
        self.head = head
        self.mean, self.square, self.batches = 0.0, 1.0, 0

    @property
    def spread(self) -> float:
        """Standard deviation of the returns so far; 1 before the first."""
        return float(max(self.square - self.mean**2, LEAST_SPREAD**2) ** 0.5)

    def true(self, scores: Scores) -> Scores:
        """Return ``scores`` with values of true returns."""
        if scores.value_T is None or scores.bootstrap_E is None:
            return scores
        return scores._replace(
            value_T=scores.value_T * self.spread + self.mean,
            bootstrap_E=scores.bootstrap_E * self.spread + self.mean,
        )

    def scaled(self, value_T: Tensor) -> Tensor:
        """Return true values in the units of the head."""
        return (value_T - self.mean) / self.spread

    @torch.no_grad()
    def learn(self, returns_T: Tensor) -> None:
        """Take the returns of a batch into the statistics; what the head says stays."""
        mean, spread = self.mean, self.spread
        # A plain mean of the first batches: none of them counts more than a later one.
        new = max(1.0 / (self.batches + 1), 1.0 - DECAY)
        own = returns_T.double()
        self.mean += new * (float(own.mean()) - self.mean)
        self.square += new * (float(own.square().mean()) - self.square)
        self.batches += 1
        self.head.weight.mul_(spread / self.spread)
        self.head.bias.mul_(spread).add_(mean - self.mean).div_(self.spread)

    @property
    def metrics(self) -> dict[str, float]:
        """The units, for the row of metrics."""
        return {"value/scale_mean": self.mean, "value/scale_spread": self.spread}

    def state_dict(self) -> ValueScaleState:
        """The statistics; the head is the critic's own."""
        return {"mean": self.mean, "square": self.square, "batches": self.batches}

    def load_state_dict(self, state: ValueScaleState) -> None:
        """Go on from ``state``."""
        self.mean, self.square = float(state["mean"]), float(state["square"])
        self.batches = int(state["batches"])


# --- NaN check ------------------------------------------------------------------------


class NonFiniteError(LLMGymError, ArithmeticError):
    """A loss or gradient is NaN or infinite. ``batch`` is the micro-batch that showed it."""

    batch: TensorDict | None = None
    """None where another process has it."""

    def saved(self, place: Path) -> NonFiniteError:
        """Write the batch to ``place``; return the error that also says where it is."""
        if self.batch is None:
            return self
        place.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.contiguous() for name, tensor in self.batch.items()}, place)
        told = NonFiniteError(f"{self}; the batch is in {place}")
        told.batch = self.batch
        return told


def check_finite(values: Sequence[float], micros: Sequence[PPOBatch], what: str) -> None:
    """Raise for the first of ``values`` that is not finite; ``micros`` are what they came of."""
    for value, micro in zip(values, micros, strict=True):
        if not math.isfinite(value):
            error = NonFiniteError(
                f"the {what} must be finite, got {value}; nothing was stepped. Lower the learning "
                "rate, or look at the batch"
            )
            error.batch = micro.detach().to_tensordict()
            raise error


def check_others(broken: float) -> None:
    """Raise where ``broken`` losses of other processes are not finite: all stop together."""
    if broken:
        raise NonFiniteError(
            "the loss must be finite, got another in a process that learns with this one, which "
            "says more; nothing was stepped"
        )
