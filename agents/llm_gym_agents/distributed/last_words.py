"""The last lines that a process of a cluster wrote, from the logs on its machine."""

from __future__ import annotations

from collections import deque
from pathlib import Path

LAST_LINES = 8


def last_words(logs: str | Path, pid: int) -> str:
    """Return the last lines of a worker in the folder of Ray's logs; nothing if it wrote none."""
    lines: list[str] = []
    for path in sorted(Path(logs).glob(f"worker-*-{pid}.*"), reverse=True):
        with path.open(encoding="utf-8", errors="replace") as file:
            # Lines with a colon are Ray's own.
            lines += [line for line in deque(file, LAST_LINES) if not line.startswith(":")]
    return "".join(lines[-LAST_LINES:]).strip()
