"""The figures of ``benchmarks/learning.py``: a panel for each game, a line for each estimator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from curves.table import NAMES, Row, learned
from learning import EPISODES
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from llm_gym.evaluate.scores import published

IMAGES = Path(__file__).parents[2] / "docs" / "images"
COLOURS = {
    "gae": "#1f5fa8",
    "gae_turn": "#3aa6b9",
    "grpo": "#d1495b",
    "rloo": "#e2a03f",
    "reinforce_plus_plus": "#6a4c93",
    "shuffled": "#9a9a9a",
}
AXES = {"episodes": "episodes, thousands", "cpu_s": "CPU seconds, one thread"}
SCALE = {"episodes": 1e-3, "cpu_s": 1.0}
INK = "#333333"


def draw(rows: Mapping[str, Row], what: str, path: Path) -> None:
    """Draw success against ``what``: the mean of the seeds, and between which they lie."""
    known = learned(rows)
    found = {game: known[game] for game in EPISODES if game in known}
    columns = min(4, len(found) + 1)
    lines = -(-(len(found) + 1) // columns)
    figure = Figure(figsize=(3.1 * columns, 2.5 * lines), dpi=130, layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    for axes, (game, estimators) in zip(panels, found.items(), strict=False):
        for name in NAMES:
            if runs := estimators.get(name):
                _line(axes, name, runs, what)
        _references(axes, f"llm_gym/{game}-v0")
        _cut_control(axes, estimators, what)
        axes.set_title(game, loc="left", fontsize=10, color=INK)
        axes.set_xlabel(AXES[what], fontsize=8)
    for axes in panels[: len(found) : columns]:
        axes.set_ylabel("held-out success", fontsize=8)
    handles, labels = panels[0].get_legend_handles_labels()
    for axes in panels[len(found) :]:
        axes.axis("off")
    panels[len(found)].legend(handles, labels, frameon=False, loc="center", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _line(axes: Axes, name: str, runs: Sequence[Row], what: str) -> None:
    """Draw the runs of an estimator; one that ended early stays where it was."""
    ends = [run["curve"][-1][what] for run in runs]
    at = np.linspace(0.0, max(ends), 60)
    success = np.array(
        [
            np.interp(at, [p[what] for p in run["curve"]], [p["success"] for p in run["curve"]])
            for run in runs
        ]
    )
    at *= SCALE[what]
    how: dict[str, Any] = {"color": COLOURS[name], "linewidth": 1.6, "label": NAMES[name]}
    axes.plot(at, success.mean(0), linestyle="--" if name == "shuffled" else "-", **how)
    axes.fill_between(at, success.min(0), success.max(0), color=COLOURS[name], alpha=0.13, lw=0)


def _cut_control(axes: Axes, estimators: Mapping[str, Sequence[Row]], what: str) -> None:
    """Let the runs that learn decide how far the axis goes: a player who never wins plays long."""
    ends = [
        run["curve"][-1][what]
        for name, runs in estimators.items()
        if name in NAMES and name != "shuffled"
        for run in runs
    ]
    if ends:
        end = max(ends) * SCALE[what]
        axes.set_xlim(-0.03 * end, 1.05 * end)


def _references(axes: Axes, env_id: str) -> None:
    for player, style in (("solver", "-."), ("random", ":")):
        axes.axhline(
            published()[env_id][player].success,
            color=INK,
            linestyle=style,
            linewidth=0.9,
            label=f"{player} player",
        )
    axes.set_ylim(-0.03, 1.05)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def main(result: Path) -> None:
    rows = json.loads(result.read_text())["rows"]
    for what in AXES:
        draw(rows, what, IMAGES / f"learning_{what.removesuffix('_s')}.png")
