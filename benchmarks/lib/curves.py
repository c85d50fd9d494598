"""Learning curves: runs by game and estimator, and where a curve reaches a goal."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

Row = dict[str, Any]
NAMES = {
    "gae": "PPO, GAE",
    "gae_turn": "PPO, GAE by turns",
    "grpo": "GRPO",
    "rloo": "RLOO",
    "reinforce_plus_plus": "REINFORCE++",
    "gigpo": "GiGPO",
    "state_td": "state TD",
    "shuffled": "control: shuffled",
}
GOAL = 0.8
"""Success whose CPU seconds are shown."""


def learned(rows: Mapping[str, Row]) -> dict[str, dict[str, list[Row]]]:
    """Return the finished runs by game and estimator, each list by seed."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows.values(), key=lambda row: row.get("seed", 0)):
        if "curve" in row:
            found[row["game"]][row["estimator"]].append(row)
    return found


def reached(curve: Sequence[Mapping[str, float]], goal: float, what: str) -> float | None:
    """Return ``what`` where the curve first crosses ``goal``, interpolated between two points.

    >>> points = [{"success": 0.0, "cpu_s": 0.0}, {"success": 0.5, "cpu_s": 10.0}]
    >>> reached(points, 0.0, "cpu_s"), reached(points, 0.25, "cpu_s"), reached(points, 0.6, "cpu_s")
    (0.0, 5.0, None)
    """
    for before, after in itertools.pairwise(curve):
        if before["success"] >= goal:
            return before[what]
        if after["success"] >= goal:
            share = (goal - before["success"]) / (after["success"] - before["success"])
            return before[what] + share * (after[what] - before[what])
    return curve[-1][what] if curve[-1]["success"] >= goal else None


def smooth(numbers: Sequence[float], width: int = 5) -> list[float]:
    """Return the mean of the last few of each.

    >>> smooth([0.0, 1.0, 1.0])
    [0.0, 0.5, 0.6666666666666666]
    """
    windows = [numbers[max(0, at + 1 - width) : at + 1] for at in range(len(numbers))]
    return [sum(window) / len(window) for window in windows]
