"""What the runs of ``benchmarks/learning.py`` came to, as a table."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import doc_tables
from doc_tables import TEXT

Row = dict[str, Any]
NAMES = {
    "gae": "PPO, GAE",
    "gae_turn": "PPO, GAE by turns",
    "grpo": "GRPO",
    "rloo": "RLOO",
    "reinforce_plus_plus": "REINFORCE++",
    "shuffled": "control: shuffled",
}
GOAL = 0.8
"""Success whose CPU seconds are told."""


def learned(rows: Mapping[str, Row]) -> dict[str, dict[str, list[Row]]]:
    """Return the finished runs by game and estimator, each list by seed."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows.values(), key=lambda row: row.get("seed", 0)):
        if "curve" in row:
            found[row["game"]][row["estimator"]].append(row)
    return found


def reached(curve: Sequence[Mapping[str, float]], goal: float, what: str) -> float | None:
    """Return ``what`` where the curve first crosses ``goal``, between two points by a line.

    >>> points = [{"success": 0.0, "cpu_s": 0.0}, {"success": 0.5, "cpu_s": 10.0}]
    >>> reached(points, 0.25, "cpu_s"), reached(points, 0.6, "cpu_s")
    (5.0, None)
    """
    for before, after in itertools.pairwise(curve):
        if before["success"] >= goal:
            return before[what]
        if after["success"] >= goal:
            share = (goal - before["success"]) / (after["success"] - before["success"])
            return before[what] + share * (after[what] - before[what])
    return curve[-1][what] if curve[-1]["success"] >= goal else None


def table(rows: Mapping[str, Row], games: Iterable[str]) -> str:
    """Return success at the start and at the end, and the way to ``GOAL``, as Markdown."""
    found = learned(rows)
    columns = {"game": TEXT, "estimator": TEXT, "seeds": "{}", "start": "{:.1%}"}
    columns |= {"end, mean": "{:.1%}", "lowest to highest": "{}", "below its best": "{:.1f}"}
    columns |= {"CPU s": "{:.0f}"}
    columns |= dict.fromkeys((f"episodes to {GOAL:.0%}", f"CPU s to {GOAL:.0%}"), "{:,.0f}")
    return doc_tables.table(
        columns,
        [
            (game, title, *_cells(runs))
            for game in games
            for name, title in NAMES.items()
            if (runs := found[game][name])
        ],
    )


def _cells(runs: Sequence[Row]) -> tuple[Any, ...]:
    ends = [run["final"] for run in runs]
    return (
        len(runs),
        statistics.fmean(run["curve"][0]["success"] for run in runs),
        statistics.fmean(ends),
        f"{min(ends):.1%} to {max(ends):.1%}",
        100 * max(run["best"] - run["curve"][-1]["success"] for run in runs),
        statistics.fmean(run["cpu_s"] for run in runs),
        _way(runs, "episodes"),
        _way(runs, "cpu_s"),
    )


def _way(runs: Sequence[Row], what: str) -> float | str | None:
    """Return the mean over seeds, or how many of them got there."""
    ways = [reached(run["curve"], GOAL, what) for run in runs]
    there = [way for way in ways if way is not None]
    if len(there) == len(runs):
        return statistics.fmean(there)
    return f"{len(there)} of {len(runs)}" if there else None
