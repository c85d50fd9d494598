"""What is known of a batch around its update: scores before it, a record and metrics of it.

Shapes: T sampled tokens of all episodes, E episodes.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from torch import Tensor

from llm_gym_agents import algo
from llm_gym_agents.batch.rollout_data import RolloutData


class Scores(NamedTuple):
    """What the weights before the update say of a batch."""

    log_prob_T: Tensor | None
    """None where the one pass of the update gives them."""
    value_T: Tensor | None
    bootstrap_E: Tensor | None
    ref_log_prob_T: Tensor | None
    entropy_T: Tensor | None = None
    """None where nobody has asked for it, as for the log-probs."""


class Clock:
    """Seconds of each part of an update."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def note(self, part: str) -> None:
        """End a part, whose results are on the CPU by now."""
        now = time.perf_counter()
        self.seconds[f"time/{part}_s"] = now - self._last
        self._last = now


def trained_tokens(
    data: RolloutData, scores: Scores, advantages: algo.Advantages
) -> dict[str, Tensor]:
    """Return what a record shows of each sampled token.

    The ratio is that of the weights that are trained, before their update, to those that sampled.
    """
    assert scores.log_prob_T is not None
    found = {
        "ratios": (scores.log_prob_T - data.sampler_log_prob_T).exp(),
        "advantages": advantages.advantages_T,
    }
    maybe = {"values": scores.value_T, "entropies": scores.entropy_T}
    return found | {name: each for name, each in maybe.items() if each is not None}


def critic_metrics(scores: Scores, advantages: algo.Advantages) -> dict[str, float]:
    """Return how well the critic knew what the batch was worth; nothing without one."""
    if scores.value_T is None:
        return {}
    target_T, error_T = advantages.returns_T, advantages.returns_T - scores.value_T
    spread = float(target_T.var()) if len(target_T) > 1 else 0.0
    explained = 1.0 - float(error_T.var()) / spread if spread > 0 else 0.0
    return {
        "value/explained_variance": explained,
        "value/mean": float(scores.value_T.mean()),
        "value/target_mean": float(target_T.mean()),
    }
