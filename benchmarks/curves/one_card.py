"""Figures of what was learned on one GPU: beside TRL, and game by game.

    python benchmarks/curves/one_card.py      # draws both again from their result files

Each is the success of the batches as they were sampled, a mean over the last few of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

RESULTS = Path(__file__).parents[1] / "results"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
INK, COLOURS = "#333333", {"ours": "#1f6f8b", "trl": "#d1495b"}
SEEDS = ("#1f6f8b", "#3aa6b9", "#8fcfda")
SMOOTH = 5
"""Batches of a mean."""


def even(numbers: Sequence[float]) -> list[float]:
    """Return the mean of the last few of each.

    >>> even([0.0, 1.0, 1.0])
    [0.0, 0.5, 0.6666666666666666]
    """
    windows = [numbers[max(0, at + 1 - SMOOTH) : at + 1] for at in range(len(numbers))]
    return [sum(window) / len(window) for window in windows]


def draw_beside(result: dict[str, Any], path: Path = IMAGES / "trl_gpu.png") -> None:
    """Draw every run of both sides against seconds and against episodes; the best rates in full."""
    figure = Figure(figsize=(9.2, 3.4), dpi=130, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    best = set(result["summary"]["best"].values())
    for name, run in sorted(result["sides"].items(), key=lambda each: each[0]):
        if not run["rows"]:
            continue
        setting = name.partition(", seed")[0]
        style = "-" if setting in best else ":"
        success = even([row["success"] for row in run["rows"]])
        label = setting.replace("ours", "llm-gym").replace("trl", "TRL")
        for axes, what in zip(panels, ("seconds", "episodes"), strict=True):
            at = [row[what] for row in run["rows"]]
            how = {"color": COLOURS[run["side"]], "linestyle": style, "label": label}
            axes.plot(at, success, linewidth=1.4, **how)
    for axes, label in zip(panels, ("seconds of one H200", "episodes"), strict=True):
        _plain(axes, label)
    panels[0].set_ylabel("success while training")
    lines = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    panels[0].legend(
        lines.values(), lines, frameon=False, fontsize=8, title="a line is a seed", title_fontsize=8
    )
    figure.savefig(path)


def draw_games(result: dict[str, Any], path: Path = IMAGES / "real_model.png") -> None:
    """Draw the seeds of every game against the seconds of reinforcement learning."""
    games: dict[str, list[Any]] = defaultdict(list)
    for run in sorted(result["runs"], key=lambda run: run["seed"]):
        if "error" not in run:
            games[run["game"]].append(run)
    columns = 3
    lines = -(-len(games) // columns)
    figure = Figure(figsize=(9.2, 2.5 * lines), dpi=130, layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    for axes, (game, runs) in zip(panels, sorted(games.items()), strict=False):
        for run in runs:
            at, success = [0.0], [run["warm"]["success"]]
            at += [point[0] for point in run["curve"]]
            success += even([point[1] for point in run["curve"]])
            colour = SEEDS[run["seed"] % len(SEEDS)]
            axes.plot(at, success, color=colour, linewidth=1.4, label=f"seed {run['seed']}")
            held_out = run["trained"]["success"]
            axes.plot(at[-1:], [held_out], "o", color=colour, markersize=4)
        axes.set_title(game, loc="left", fontsize=10, color=INK)
        _plain(axes, "seconds")
    for axes in panels[len(games) :]:
        axes.axis("off")
    panels[0].legend(frameon=False, fontsize=8)
    for axes in panels[::columns]:
        axes.set_ylabel("success", fontsize=8)
    figure.savefig(path)


def _plain(axes: Axes, label: str) -> None:
    axes.set_xlabel(label, fontsize=8)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    for name, draw in (("trl_gpu", draw_beside), ("real_model", draw_games)):
        if (place := RESULTS / f"{name}.json").exists():
            draw(json.loads(place.read_text()))


if __name__ == "__main__":
    main()
