"""Schedules of a run: episodes, learning rate, evaluations and early stop.

They depend only on the iteration and a few saved numbers, so a resumed run continues exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_gym.core.errors import ConfigError
from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.config import CheckpointConfig, EnvConfig, TrainingConfig
from llm_gym_agents.rollouts.mix import by_signal
from llm_gym_agents.rollouts.tasks import (
    EpisodeSelection,
    EpisodeTask,
    held_out_tasks,
    split_options,
    training_tasks,
)

CRITIC_FIRST = 3
"""Critic-only iterations after imitating a solver; at most a quarter of the run."""
MOST_FALLS = 3
"""Number of falls in a row that ends a run."""


def learning_rate_factor(kind: str, iteration: int, total: int, warmup: int) -> float:
    """Return the factor on the learning rate in ``iteration`` of ``total``.

    >>> [learning_rate_factor("linear", i, 4, 0) for i in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    >>> [learning_rate_factor("constant", i, 3, 1) for i in range(3)]
    [0.5, 1.0, 1.0]
    """
    if iteration < warmup:
        return (iteration + 1) / (warmup + 1)
    if kind == "constant":
        return 1.0
    share = (iteration - warmup) / max(total - warmup, 1)
    if kind == "linear":
        return max(0.0, 1.0 - share)
    if kind == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * min(share, 1.0)))
    raise ConfigError(f"lr_schedule must be constant, linear or cosine, got {kind!r}")


@dataclass(frozen=True, slots=True)
class Schedule:
    """What each iteration does, according to the config.

    Sections are read at every call: a later ``fit`` may have more epochs.
    """

    training: TrainingConfig
    environment: EnvConfig
    checkpoint: CheckpointConfig
    has_splits: bool
    """Whether the environments have training and held-out instances."""
    solver_at: Callable[[], int | None] = lambda: None
    """Iteration before which a solver was imitated; None if none was."""
    last_rate: Callable[[], float] = lambda: 1.0
    """Factor on the learning rates in the previous iteration."""
    success: Callable[[], Mapping[str, float]] = dict
    """Success rate of each environment of a mix, if known."""

    def tasks(self, iteration: int) -> list[EpisodeTask]:
        settings, mix = self.training, self.environment.mix
        if self.environment.mix_by == "signal":
            mix = by_signal(mix, self.success())
        return training_tasks(
            settings.seed,
            iteration,
            batch_size=settings.batch_size,
            group_size=settings.group_size,
            options=split_options(self.environment.train_split, self.has_splits),
            mix=mix,
        )

    def tasks_ahead(self, iteration: int) -> list[EpisodeTask]:
        """Return the episodes of a later iteration; none after the last."""
        return self.tasks(iteration) if iteration < self.training.iterations else []

    def held_out_tasks(self, which: EpisodeSelection = None) -> list[EpisodeTask]:
        """Return the episodes of an evaluation: the same ones every time."""
        options = split_options(self.environment.eval_split, self.has_splits)
        numbers = which if isinstance(which, range) else range(self._evenly(which))
        return held_out_tasks(numbers, options, list(self.environment.mix))

    def _evenly(self, episodes: int | None) -> int:
        each = max(1, len(self.environment.mix))
        return -(-(episodes or self.environment.eval_episodes) // each) * each

    @property
    def reported(self) -> range:
        """The held-out episodes of the final report.

        Other episodes than in the evaluations: those choose the best weights, so they are biased.
        """
        seen = self._evenly(None)
        return range(seen, 2 * seen)

    def update_settings(self, iteration: int) -> dict[str, Any]:
        """Return the arguments of the update of ``iteration``."""
        settings, total = self.training, self.training.iterations
        kind, warmup = settings.lr_schedule, settings.warmup_iters
        # To a critic that knows nothing, the early moves of a good player look bad.
        solver_at, first = self.solver_at(), min(CRITIC_FIRST, total // 4)
        after_solver = solver_at is not None and solver_at <= iteration < solver_at + first
        rate = learning_rate_factor(kind, iteration, total, warmup)
        # A run that is made longer goes on at the rate that it had come down to.
        return {
            "rate": rate if iteration <= warmup else min(rate, self.last_rate()),
            "critic_only": after_solver or iteration < settings.critic_warmup_iters,
        }

    def is_second_chance(self, done: int) -> bool:
        """Whether this is the first evaluation after a quarter of the run."""
        total = self.training.iterations
        quarter = math.ceil(total / 4)
        before = any(self.evaluates_after(each) for each in range(quarter, done))
        return quarter <= done < total and self.evaluates_after(done) and not before

    def evaluates_after(self, done: int) -> bool:
        every = self.environment.eval_interval
        return bool(every) and (done % every == 0 or done == self.training.iterations)

    def saves_after(self, done: int) -> bool:
        every = self.checkpoint.save_interval * self.training.num_iters_per_epoch
        return (bool(every) and done % every == 0) or done == self.training.iterations


# --- early stopping -------------------------------------------------------------------


class HeldOutSuccess(NamedTuple):
    """Held-out success and its 95 % interval."""

    success: float
    low: float
    high: float

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key for comparing weights."""
        return self.low, self.success

    @classmethod
    def of(cls, result: Evaluation) -> HeldOutSuccess:
        return cls(result.success, *result.interval)


class EarlyStop:
    """Decides from held-out success when a run ends or returns to its best weights.

    Success is an estimate from a few hundred episodes. So the lower end of its interval must reach
    the target, and a drop counts as a fall only if it exceeds both intervals.

    Args:
        checkpoint: Whether the run ends with its best weights.
        environment: Has the success to stop at. Read at every call: a later ``fit`` may change it.
    """

    def __init__(self, checkpoint: CheckpointConfig, environment: EnvConfig) -> None:
        self._checkpoint, self._environment = checkpoint, environment
        self.now: HeldOutSuccess | None = None
        """Of the current weights; None if they were not evaluated."""
        self.best: HeldOutSuccess | None = None
        self.falls = 0
        """Since the best."""
        self.ended: str | None = None
        """Why the run may end, as of the last evaluation, whichever weights were loaded since."""

    def update(self, result: Evaluation | None) -> dict[str, float]:
        """Record the evaluation of the current weights, if there was one; return metrics."""
        if result is None:
            self.now = None
            return {}
        self.now = HeldOutSuccess.of(result)
        self.falls += self.has_fallen
        if self.best is None or self.now.rank > self.best.rank:
            self.best, self.falls = self.now, 0
        self.ended = self.why
        return {
            "eval/success_low": self.now.low,
            "eval/success_high": self.now.high,
            "eval/falls": float(self.falls),
        }

    @property
    def has_fallen(self) -> bool:
        """Whether the current weights are significantly worse than the best.

        Each success rate must lie outside the other's interval: 1 win of 64, then 0 of 200, is no
        fall.
        """
        if self.now is None or self.best is None or not self._checkpoint.end_with_best:
            return False
        return self.now.success < self.best.low and self.now.high < self.best.success

    @property
    def why(self) -> str | None:
        """Why the run ends here; None if it continues."""
        target = self._environment.stop_at_success
        if self.falls >= MOST_FALLS:
            return f"held-out success fell {self.falls} times from its best"
        if target is not None and self.now is not None and self.now.low >= target:
            return (
                f"held-out success is {self.now.success:.1%}, and its 95 % interval is above "
                f"environment.stop_at_success ({target:.0%})"
            )
        return None

    def restart(self, start: HeldOutSuccess | None) -> None:
        """Forget earlier evaluations after a new imitation; its success is the new best."""
        self.now, self.best, self.falls = None, start, 0

    def state(self) -> dict[str, Any]:
        return {"now": self.now, "best": self.best, "falls": self.falls}

    def load_state(self, state: dict[str, Any]) -> None:
        self.now, self.best = (
            None if state[name] is None else HeldOutSuccess(*state[name])
            for name in ("now", "best")
        )
        self.falls = state["falls"]
