"""When a side of ``trl_gpu.py`` may begin, and what it has measured since.

Engines of all runs start at the same time, because that takes longer than learning; then one run
after another has the card to itself. A run that is ready says so and waits for its turn.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import perf_counter, sleep

LOOK_EVERY_S = 0.05


def ready_of(turn: Path) -> Path:
    """Return the file by which a run says that it is ready to have its turn."""
    return turn.with_suffix(".ready")


def wait_for(turn: Path | None) -> None:
    """Say that this run is ready, and return when ``turn`` exists; end if nobody gives turns."""
    if turn is None:
        return
    parent = os.getppid()
    ready_of(turn).touch()
    while not turn.exists():
        if os.getppid() != parent:
            os._exit(1)
        sleep(LOOK_EVERY_S)


class Clock:
    """Writes a row for each batch; ends the process when its time is over."""

    def __init__(self, path: Path, seconds: float, episodes: int) -> None:
        self.path, self.seconds, self.episodes, self.updates = path, seconds, episodes, 0
        self.begun = perf_counter()

    def note(self, success: float, **more: float) -> None:
        """Note a batch that was played and learned from."""
        self.updates += 1
        took = perf_counter() - self.begun
        row = {"updates": self.updates, "episodes": self.updates * self.episodes, "seconds": took}
        with self.path.open("a") as file:
            file.write(json.dumps(row | {"success": success} | more) + "\n")
        if took > self.seconds:
            sys.stdout.flush()
            os._exit(0)  # engines of both sides have processes that would be waited for
