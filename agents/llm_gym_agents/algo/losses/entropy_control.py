"""The weight of the entropy bonus, fixed or steered towards a target.

A fixed weight is right for one moment of a run: too small, and the policy settles on the first
thing that works; too large, and it writes anything. Held at a target, the entropy decides.
"""

from __future__ import annotations

import math
from typing import TypedDict

from llm_gym.errors import ConfigError

LEAST, MOST = 1e-5, 0.3
"""Bounds of a weight that is steered: from nothing to as much as the policy's own loss bears."""
FIRST = 1e-3
"""Where a weight begins that is steered and was set to 0, from which no factor leads away."""
GAIN = 0.3
"""Change of the weight's logarithm in one update, for an entropy that is off by all of it."""


class EntropyControllerState(TypedDict):
    """What a checkpoint must hold to go on with the same weight."""

    entropy_coef: float


class EntropyController:
    """Holds ``entropy_coef`` and, with a target, moves it until the entropy is there.

    The logarithm of the weight is what moves, by the relative error, which is held within ±1: so
    a weight never changes its sign, and no single batch changes it by more than 35 %.

    Args:
        entropy_coef: The first weight.
        target: Entropy of a token to hold, in nats. None keeps the weight fixed.

    >>> controller = EntropyController(0.01, target=0.5)
    >>> round(controller.update(0.25), 5)  # half of what it should be
    0.01162
    """

    def __init__(self, entropy_coef: float = 0.0, target: float | None = None) -> None:
        if not (math.isfinite(entropy_coef) and entropy_coef >= 0.0):
            raise ConfigError(f"entropy_coef must be at least 0, got {entropy_coef}")
        if target is not None and not (math.isfinite(target) and target > 0.0):
            raise ConfigError(f"the target of the entropy must be above 0, got {target}")
        self.target = target
        self.entropy_coef = float(entropy_coef)
        if target is not None:
            self.entropy_coef = min(max(entropy_coef or FIRST, LEAST), MOST)

    def update(self, entropy: float) -> float:
        """Move the weight after an update in which the policy had this entropy; return it.

        An entropy that is not a number raises: it would poison the weight for good.
        """
        if self.target is None:
            return self.entropy_coef
        if not math.isfinite(entropy):
            raise ConfigError(f"the entropy must be finite, got {entropy}")
        error = min(max(1.0 - entropy / self.target, -1.0), 1.0)
        self.entropy_coef = min(max(self.entropy_coef * math.exp(GAIN * error), LEAST), MOST)
        return self.entropy_coef

    def state_dict(self) -> EntropyControllerState:
        """The part that changes while training; the settings come from the config."""
        return {"entropy_coef": self.entropy_coef}

    def load_state_dict(self, state: EntropyControllerState) -> None:
        """Go on from ``state``; a weight that is fixed stays what the config says."""
        if self.target is not None:
            self.entropy_coef = float(state["entropy_coef"])
