"""A median of calls, for both sides of a comparison."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from timeit import default_timer
from typing import TypeVar

Found = TypeVar("Found")


def timed(run: Callable[[], Found], rounds: int) -> tuple[float, Found]:
    """Return the median seconds of a call, and what the first one returned."""
    found, seconds = run(), []
    for _ in range(rounds):
        start = default_timer()
        run()
        seconds.append(default_timer() - start)
    return statistics.median(seconds), found
