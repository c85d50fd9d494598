"""What the runs of ``trl_gpu.py`` came to, side beside side."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from typing import Any

from curves.table import reached

SMOOTH = 5
"""Batches whose success is averaged before it is compared: one has 64 episodes."""


def smooth(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return rows with the success of the last few batches.

    >>> smooth([{"success": float(at)} for at in range(3)])
    [{'success': 0.0}, {'success': 0.5}, {'success': 1.0}]
    """
    found = []
    for at, row in enumerate(rows):
        last = rows[max(0, at + 1 - SMOOTH) : at + 1]
        found.append(row | {"success": statistics.fmean(each["success"] for each in last)})
    return found


def summary(sides: dict[str, Any]) -> dict[str, Any]:
    """Return what each run came to, and how much sooner our best has TRL's success than its best.

    The best setting of a side is the one whose seeds end highest, in the mean; a setting is told by
    the means of its seeds.
    """
    runs = {name: each["rows"] for name, each in sides.items() if each["rows"]}
    told: dict[str, Any] = {"runs": {name: _run(rows) for name, rows in runs.items()}, "best": {}}
    settings: dict[str, list[str]] = defaultdict(list)
    for name in runs:
        settings[_setting(name)].append(name)
    means = {
        setting: {
            what: statistics.fmean(told["runs"][name][what] for name in names)
            for what in ("final", "s_per_update")
        }
        for setting, names in settings.items()
        if all(told["runs"][name]["s_per_update"] is not None for name in names)
    }
    for side in ("ours", "trl"):
        own = [setting for setting in means if setting.startswith(side)]
        if own:
            told["best"][side] = max(own, key=lambda setting: means[setting]["final"])
    if len(told["best"]) < 2:
        return told
    best = {side: means[setting] for side, setting in told["best"].items()}
    goal = told["goal"] = min(each["final"] for each in best.values())
    for row, rows in zip(told["runs"].values(), runs.values(), strict=True):
        row["seconds_to_goal"] = reached(smooth(rows), goal, "seconds")
        row["episodes_to_goal"] = reached(smooth(rows), goal, "episodes")
    ways = {
        side: [told["runs"][name]["seconds_to_goal"] for name in settings[setting]]
        for side, setting in told["best"].items()
    }
    # A seed of TRL's that ends below the mean of all never gets there: its whole run counts.
    whole = [told["runs"][name]["seconds"] for name in settings[told["best"]["trl"]]]
    theirs = [end if way is None else way for way, end in zip(ways["trl"], whole, strict=True)]
    if None not in ways["ours"]:
        told["times_faster"] = statistics.fmean(theirs) / statistics.fmean(ways["ours"])
    told["times_per_update"] = best["trl"]["s_per_update"] / best["ours"]["s_per_update"]
    return told


def _setting(name: str) -> str:
    return name.partition(", seed")[0]


def _run(rows: list[dict[str, float]]) -> dict[str, Any]:
    steps = [b["seconds"] - a["seconds"] for a, b in itertools.pairwise(rows[1:])]
    even = smooth(rows)
    return {
        "updates": len(rows),
        "first": even[0]["success"],
        "final": even[-1]["success"],
        "peak": max(row["success"] for row in even),
        "seconds": even[-1]["seconds"],
        "s_per_update": statistics.median(steps) if steps else None,
    }
