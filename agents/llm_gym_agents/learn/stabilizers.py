"""Stabilizers of an update: signal, trust region, value scale, episode mask.

Value scale and episode mask are off unless the config turns them on; off, they change no number.

Shapes: T sampled tokens, E episodes of the batch, M episodes of an optimizer step.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from llm_gym_agents import algo
from llm_gym_agents.algo.tensor_ops import segment_sum
from llm_gym_agents.config import TrainingConfig
from llm_gym_agents.learn.optimizer import trained
from llm_gym_agents.learn.scoring import Scores
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.model.weights import local_tensor
from llm_gym_agents.rollouts.rollout_data import RolloutData

VALUE_DECAY = 0.9
"""Weight of the old statistics when a batch is added, after the first few batches."""
MIN_STD = 1e-4
FEW_TOKENS = 8
"""The KL of a longer reply, summed over its tokens, is limited to that of so many tokens."""
LEAST_RATE = 0.01
"""Minimum factor on the learning rate."""


class Stabilizers:
    """The stabilizers of an update, and the part of them that a checkpoint keeps.

    Args:
        config: Says which are on.
        model: The trust region limits its updates; the value scale rescales its value head.
    """

    def __init__(self, config: TrainingConfig, model: PolicyValueModel) -> None:
        self.config = config
        self.trust = TrustRegion(config.max_kl, trained(model.lm))
        self.value_scale: ValueScale | None = None
        if config.normalise_values and model.value_head is not None:
            self.value_scale = ValueScale(model.value_head)
        self.kept_E = torch.ones(0, dtype=torch.bool)
        """The episode mask of the batch."""

    def unscale(self, scores: Scores) -> Scores:
        if self.value_scale is None or scores.value_T is None or scores.bootstrap_E is None:
            return scores
        return scores._replace(
            value_T=self.value_scale.unscale(scores.value_T),
            bootstrap_E=self.value_scale.unscale(scores.bootstrap_E),
        )

    def scale(self, value_T: Tensor) -> Tensor:
        return value_T if self.value_scale is None else self.value_scale.scale(value_T)

    def before_update(self, data: RolloutData, advantages: algo.Advantages) -> None:
        """Update the value scale and choose the episodes to train on."""
        if self.value_scale is not None:
            self.value_scale.update(advantages.returns_T)
        self.kept_E = torch.ones_like(data.lengths_E, dtype=torch.bool)
        # Masked episodes stay in the batch, so that a group still compares with all its members.
        if self.config.mask_truncated_replies and data.truncated_reply_E is not None:
            self.kept_E = ~data.truncated_reply_E

    @property
    def metrics(self) -> dict[str, float]:
        found = {} if self.value_scale is None else self.value_scale.metrics
        if self.config.mask_truncated_replies:
            found["train/masked_episodes"] = 1.0 - float(self.kept_E.float().mean())
        return found

    def state(self) -> dict[str, Any]:
        scale = None if self.value_scale is None else self.value_scale.state_dict()
        return {"trust": self.trust.state_dict(), "value_scale": scale}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from ``state``. A stabilizer that was off starts fresh."""
        self.trust.load_state_dict(state["trust"])
        if self.value_scale is not None and state["value_scale"] is not None:
            self.value_scale.load_state_dict(state["value_scale"])


# --- signal ------------------------------------------------------------------------------------

_ROUNDING = 1e-5
"""Rewards are float32, so a difference below this share of the largest one counts as 0."""


def signal_share(
    data: RolloutData | algo.TokenStream, advantages_T: Tensor, unusable_T: Tensor | None = None
) -> float:
    """Return the signal of a batch: 0 if all episodes scored the same, at most 1.

    It is the standard deviation of the returns (negative ones count as 0) over their mean: 1 if at
    most half of the episodes are won, and small if few are lost. Adam is invariant to the scale of
    gradients, so without it a batch of little signal would make full steps of noise. The rewards
    decide, not the critic, which may be untrained; the cost of a lost episode does not count. If
    all episodes pay for their moves, as in Acrobot, returns count from the worst one. If nothing is
    won, turns can still differ by shaped rewards. If only unusable replies cost something, the
    signal is their share: a model that wins nothing must not settle on its safest reply.
    """
    if _is_flat(advantages_T):
        return 0.0
    reward_T = data.reward_T.double()
    score_E = segment_sum(reward_T, data.lengths_E)[data.lengths_E > 0]
    least = _ROUNDING * float(reward_T.abs().max())
    moves_T = reward_T if unusable_T is None else reward_T.masked_fill(unusable_T, 0.0)
    pays = bool((segment_sum(moves_T, data.lengths_E)[data.lengths_E > 0] < -least).all())
    won_E = (score_E - (score_E.min() if pays else 0.0)).clamp(min=0.0)
    mean = float(won_E.mean())
    if float(score_E.max() - score_E.min()) <= least:
        if mean > least or pays or _is_flat(reward_T[data.turn_ends_T]):
            return 0.0
    elif mean > least:
        return min(1.0, float(won_E.std(correction=0)) / mean)
    if unusable_T is None or bool(reward_T[~unusable_T].abs().max() > least):
        return 1.0
    return float(unusable_T.sum() / data.turn_ends_T.sum())


def estimate_by_env(
    estimate: Callable[[algo.TokenStream], algo.Advantages],
    data: RolloutData,
    stream: algo.TokenStream,
) -> tuple[algo.Advantages, float]:
    """Return advantages and signal of a batch; in a mix, for each environment separately.

    An estimator then compares and whitens only rewards of one environment. Whitening would make an
    environment's noise as large as another's signal, so the advantages of an environment are scaled
    by its own signal. The signal of the batch is the mean over episodes.
    """
    if data.env_E is None:
        advantages = estimate(stream)
        return advantages, signal_share(data, advantages.advantages_T, data.unusable_T)
    paid = algo.TokenStream(
        reward_T=data.reward_T, lengths_E=data.lengths_E, turn_ends_T=data.turn_ends_T
    )
    advantages_T = torch.zeros_like(data.sampler_log_prob_T)
    returns_T, signal = torch.zeros_like(advantages_T), 0.0
    for number in data.env_E.unique():
        own_E = data.env_E == number
        own_T = stream.on_tokens(own_E)
        own = estimate(stream.where(own_E))
        unusable_T = None if data.unusable_T is None else data.unusable_T[own_T]
        own_signal = signal_share(paid.where(own_E), own.advantages_T, unusable_T)
        advantages_T[own_T] = own.advantages_T.to(advantages_T.dtype) * step_share(own_signal)
        returns_T[own_T] = own.returns_T.to(returns_T.dtype)
        signal += own_signal * float(own_E.double().mean())
    return algo.Advantages(advantages_T, returns_T), signal


def step_share(signal: float) -> float:
    """Return the factor on the step size for a batch with this signal."""
    return min(1.0, 2.0 * signal)


def critic_gradient(signal: float) -> float:
    """Return the factor on the critic's gradient into the shared trunk.

    If nearly all episodes are won, this gradient is larger than the policy's. It changes the policy
    on new instances, which the KL on the batch does not show.
    """
    return min(1.0, max(0.0, 4.0 * signal - 1.0))


def _is_flat(values: Tensor) -> bool:
    return float(values.max() - values.min()) <= _ROUNDING * float(values.abs().max())


def shrink_values(stream: algo.TokenStream, returns_T: Tensor) -> algo.TokenStream:
    """Return ``stream`` with values shrunk to what they explain of the returns.

    The new values are a regression of the returns on the values, with a slope from 0 to 1. An
    untrained critic becomes a constant baseline and adds no noise; a good critic does not change.
    """
    assert stream.value_T is not None
    value_T, returns_T = stream.value_T.double(), returns_T.double()
    mean, apart_T = float(value_T.mean()), value_T - value_T.mean()
    variance = float(apart_T.square().mean())
    slope = float((apart_T * returns_T).mean()) / variance if variance > MIN_STD**2 else 0.0
    slope, level = min(max(slope, 0.0), 1.0), float(returns_T.mean())

    def shrunk(value: Tensor) -> Tensor:
        return (value - mean) * slope + level

    ahead_E = None if stream.bootstrap_E is None else shrunk(stream.bootstrap_E)
    return dataclasses.replace(stream, value_T=shrunk(stream.value_T), bootstrap_E=ahead_E)


# --- trust region ------------------------------------------------------------------------------


class TrustRegion:
    """Keeps the KL of an update within a limit, and adapts the learning rate to it.

    Args:
        limit: KL between the policies before and after an update, a mean over sampled tokens.
        parameters: Parameters of the policy. A copy is kept in host memory.
    """

    def __init__(self, limit: float, parameters: Sequence[nn.Parameter]) -> None:
        self._limit, self._parameters = limit, parameters
        self._start: list[Tensor] = []
        self.rate = 1.0
        """Factor on the policy's learning rate."""
        self.narrowed = 1.0
        """Factor on the limit."""
        self.bound = limit
        """Limit of the current update."""

    @property
    def limit(self) -> float:
        """KL limit of an update from a batch with full signal."""
        return self._limit * self.narrowed

    def begin(self, signal: float, reply_tokens: float = 1.0) -> None:
        """Begin an update from a batch with this signal and this mean reply length.

        The signal scales its steps, and the KL grows with the square of a small step. One wrong
        token spoils a reply, so a long reply gets the KL limit of a reply of a few tokens.
        """
        self.bound = self.limit * signal**2 * min(1.0, FEW_TOKENS / reply_tokens)
        weights = self._weights()
        if not self._start:
            self._start = [
                torch.empty_like(weight, device="cpu", pin_memory=weight.is_cuda)
                for weight in weights
            ]
        for kept, weight in zip(self._start, weights, strict=True):
            kept.copy_(weight)

    def _weights(self) -> list[Tensor]:
        return [local_tensor(parameter.detach()) for parameter in self._parameters]

    def shorten(self, kl: float) -> None:
        """Move the weights back towards those before the update, from ``kl`` to the limit."""
        share = 0.9 * math.sqrt(self.bound / kl)
        for kept, weight in zip(self._start, self._weights(), strict=True):
            first = kept.to(weight.device)
            weight.copy_(first if not share else torch.lerp(first, weight, share))

    def adapt(self, kl: float, *, shortened: bool) -> None:
        """Lower the learning rate after an update over the limit; raise it after a small one.

        The KL grows with the square of the rate, so updates settle above half of the limit.
        """
        if shortened:
            self.rate = max(LEAST_RATE, self.rate / 1.5)
        elif kl < self.bound / 2:
            self.rate = min(1.0, self.rate * 1.25)

    def state_dict(self) -> dict[str, float]:
        return {"rate": self.rate, "narrowed": self.narrowed}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        self.rate, self.narrowed = float(state["rate"]), float(state["narrowed"])


# --- value scale -------------------------------------------------------------------------------


class ValueScale:
    """Running mean and standard deviation of returns; the value head predicts in these units.

    When they move, the head is rescaled so that its predicted return stays the same (PopArt, van
    Hasselt et al. 2016). Everything outside the loss is in units of the return.

    Args:
        head: The value head, rescaled in place.
    """

    def __init__(self, head: nn.Linear) -> None:
        self.head = head
        self.mean, self.square, self.batches = 0.0, 1.0, 0

    @property
    def std(self) -> float:
        """Standard deviation of the returns so far; 1 before the first."""
        return float(max(self.square - self.mean**2, MIN_STD**2) ** 0.5)

    def unscale(self, value: Tensor) -> Tensor:
        return value * self.std + self.mean

    def scale(self, value_T: Tensor) -> Tensor:
        return (value_T - self.mean) / self.std

    @torch.no_grad()
    def update(self, returns_T: Tensor) -> None:
        mean, std = self.mean, self.std
        # A plain mean over the first batches, so that none of them counts more than a later one.
        new = max(1.0 / (self.batches + 1), 1.0 - VALUE_DECAY)
        own = returns_T.double()
        self.mean += new * (float(own.mean()) - self.mean)
        self.square += new * (float(own.square().mean()) - self.square)
        self.batches += 1
        self.head.weight.mul_(std / self.std)
        self.head.bias.mul_(std).add_(mean - self.mean).div_(self.std)

    @property
    def metrics(self) -> dict[str, float]:
        return {"value/scale_mean": self.mean, "value/scale_spread": self.std}

    def state_dict(self) -> dict[str, float]:
        """Return the statistics; the head is saved with the critic."""
        return {"mean": self.mean, "square": self.square, "batches": self.batches}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        self.mean, self.square = float(state["mean"]), float(state["square"])
        self.batches = int(state["batches"])
