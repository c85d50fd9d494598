"""``Pace``: what the rest of a run will take.

An iteration that ends in an evaluation takes longer than the others. Told apart, they give a time
left that falls steadily; their common mean would jump at every evaluation.
"""

from __future__ import annotations

from collections import deque
from statistics import fmean

RECENT = 20
"""Iterations of a kind that are looked at: episodes grow longer or shorter as a model learns."""


class Pace:
    """Times iterations.

    Args:
        eval_interval: Every so many of them there is an evaluation; 0 for never.
        now: When the first began.
    """

    def __init__(self, eval_interval: int, now: float = 0.0) -> None:
        self._interval, self._last = eval_interval, now
        self._plain: deque[float] = deque(maxlen=RECENT)
        self._evaluated: deque[float] = deque(maxlen=RECENT)

    def tick(self, now: float, *, evaluated: bool) -> None:
        """Take in that an iteration is done, and whether it ended in an evaluation."""
        (self._evaluated if evaluated and self._interval else self._plain).append(now - self._last)
        self._last = now

    @property
    def knows_all(self) -> bool:
        """Whether an evaluation has been timed, if there are any."""
        return not self._interval or bool(self._evaluated)

    def seconds_left(self, done: int, total: int) -> float | None:
        """Return what the iterations after ``done`` of ``total`` take; None before the first.

        >>> pace = Pace(5)
        >>> for at in range(1, 6):
        ...     pace.tick(at if at < 5 else 14.0, evaluated=at == 5)
        >>> pace.seconds_left(5, 15)
        28.0
        """
        if not self._plain and not self._evaluated:
            return None
        left = max(total - done, 0)
        looks = 0
        if self._interval:
            looks = total // self._interval - done // self._interval
            looks += done < total and total % self._interval != 0  # after the last one, always
        looks = min(looks, left)
        plain = fmean(self._plain or self._evaluated)
        return (left - looks) * plain + looks * fmean(self._evaluated or self._plain)
