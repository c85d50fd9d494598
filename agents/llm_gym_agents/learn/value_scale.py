"""``ValueScale``: a critic that learns returns of any size as numbers around 0 and 1.

The value head then says how many spreads a return is from the running mean. When mean and spread
move, the head is changed with them, so that what it says of the true return stays what it was
(PopArt, van Hasselt et al. 2016). Everything outside the loss is in true units.

Shapes: T sampled tokens, E episodes.
"""

from __future__ import annotations

from typing import TypedDict

import torch
from torch import Tensor, nn

from llm_gym_agents.learn.scores import Scores

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
