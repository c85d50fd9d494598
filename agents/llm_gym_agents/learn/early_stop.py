"""``EarlyStop``: when a run has learned enough, or nothing more for long.

Held-out success is an estimate from a few hundred episodes: 95 of 100 may be a player of 89 % or
of 98 %. So a run may be asked to be sure before it stops, and a gain is one only above the
interval of the last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.config import ConfigStore


class HeldOut(NamedTuple):
    """Held-out success of some weights, and its 95 % interval."""

    success: float
    low: float
    high: float

    @classmethod
    def of(cls, result: Evaluation) -> HeldOut:
        """Return what an evaluation says."""
        return cls(result.success, *result.interval)


class EarlyStop:
    """Looks at every evaluation of a run.

    Args:
        config: Read at every call: a later ``fit`` may ask for more.
    """

    def __init__(self, config: ConfigStore) -> None:
        self._config = config
        self.now: HeldOut | None = None
        """Of the present weights; None if they were not evaluated."""
        self._mark: float | None = None
        """Upper end of the interval at the last gain."""
        self.without_gain = 0
        """Evaluations since then."""
        self.ended: str | None = None
        """Why the run may end, as of the last evaluation, whatever weights were loaded since."""

    def look(self, result: Evaluation | None) -> dict[str, float]:
        """Take in the evaluation of the present weights, or that there was none."""
        if result is None:
            self.now = None
            return {}
        self.now = HeldOut.of(result)
        # Compared with the last gain and not with the last evaluation: small gains add up to one.
        if self._mark is None or self.now.success > self._mark:
            self._mark, self.without_gain = self.now.high, 0
        else:
            self.without_gain += 1
        self.ended = self.why
        return {
            "eval/success_low": self.now.low,
            "eval/success_high": self.now.high,
            "eval/without_gain": float(self.without_gain),
        }

    @property
    def is_enough(self) -> bool:
        """Whether the run may end here."""
        return self.why is not None

    @property
    def why(self) -> str | None:
        """Why the run may end here; None where it goes on."""
        settings = self._config.environment
        if self.now is None:
            return None
        if settings.stop_at_success is not None and self.now.low >= settings.stop_at_success:
            return (
                f"held-out success is {self.now.success:.1%}, surely at least the "
                f"{settings.stop_at_success:.0%} of environment.stop_at_success"
            )
        patience = settings.stop_after_no_gain
        if patience is not None and self.without_gain >= patience:
            return f"{self.without_gain} evaluations in a row without a gain"
        return None

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        now = None if self.now is None else list(self.now)
        return {"now": now, "mark": self._mark, "without_gain": self.without_gain}

    def load_state(self, state: dict[str, Any] | None, success: float | None) -> None:
        """Go on from ``state``; a checkpoint from before there was one knows ``success`` alone."""
        if state is None:
            now = None if success is None else [success] * 3
            state = {"now": now, "mark": success, "without_gain": 0}
        self.now = None if state["now"] is None else HeldOut(*state["now"])
        self._mark, self.without_gain = state["mark"], state["without_gain"]
