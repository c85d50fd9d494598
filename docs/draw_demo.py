"""Draw ``docs/images/demo.png`` from ``benchmarks/results/demo.json``.

Every seed is a line: held-out success over iterations, and over the seconds since the command was
given, imports, warm start and evaluations included. A ring is where the command was over, at the
success of its model on fresh episodes: the seconds and the success that tables and text name.

    python docs/draw_demo.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from llm_gym.evaluate.scores import published
from llm_gym_agents.run.plots import draw_references, style_axes

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "demo.json"
PICTURE = ROOT / "docs" / "images" / "demo.png"
SEEDS = ("#1f5fa8", "#d1731f", "#3f8f5b")
GREY = "#8a8a8a"


def draw(result: dict[str, Any], path: Path = PICTURE) -> Path:
    """Draw the runs of ``result``, as ``benchmarks/demo.py`` writes it; return the path."""
    figure = Figure(figsize=(9.2, 3.5), dpi=140, layout="constrained")
    by_iteration, by_time = figure.subplots(1, 2, sharey=True)
    for color, row in zip(SEEDS, result["rows"], strict=False):
        iterations, seconds, success = zip(*row["held_out"], strict=True)
        line = {"color": color, "linewidth": 1.8, "marker": "o", "markersize": 3.5}
        by_iteration.plot(iterations, success, label=f"seed {row['seed']}", **line)
        by_time.plot(seconds, success, **line)
        end = {"color": color, "markersize": 8, "markerfacecolor": "none", "clip_on": False}
        by_time.plot(row["total_s"], row["fresh"], marker="o", **end)
    _finish(by_iteration, "iteration")
    _finish(by_time, f"seconds since the command was given, {_threads(result)}")
    draw_references(by_time, _references(result["goal"]))
    by_iteration.set_ylabel("held-out success")
    by_iteration.legend(frameon=False, loc="lower right", fontsize=9)
    ring = {"color": GREY, "marker": "o", "markersize": 8, "markerfacecolor": "none"}
    over = by_time.plot([], [], linestyle="", label="in the end, on 1,000 fresh episodes", **ring)
    by_time.legend(handles=over, frameon=False, loc="lower right", fontsize=9)
    figure.savefig(path)
    return path


def _finish(axes: Axes, along: str) -> None:
    axes.set_xlabel(along)
    axes.set_xlim(left=0)
    axes.set_ylim(-0.02, 1.02)
    style_axes(axes)


def _references(goal: float) -> dict[str, float]:
    known = published()["llm_gym/TextGameEasy-v0"]
    lines = {player: known[player].success for player in ("random", "solver")}
    return {**lines, f"{goal:.0%}": goal}


def _threads(result: dict[str, Any]) -> str:
    count = result["threads"]
    return f"{count} thread{'s' * (count != 1)}"


if __name__ == "__main__":
    sys.stdout.write(f"{draw(json.loads(RESULT.read_text()))}\n")
