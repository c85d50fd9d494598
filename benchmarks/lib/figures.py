"""The figures of README and reports, from result files.

python -m benchmarks.lib.figures            # draw every figure again
python -m benchmarks.lib.figures demo trl   # draw these
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.lib.curves import NAMES, Row, learned
from benchmarks.lib.machine import IMAGES
from benchmarks.lib.tables import read
from benchmarks.peers.trl import ARMS, curve, finals_of
from llm_gym.evaluate.scores import published

INK, GREY = "#333333", "#8a8a8a"
ESTIMATORS = {
    "gae": "#1f5fa8",
    "gae_turn": "#3aa6b9",
    "grpo": "#d1495b",
    "rloo": "#e2a03f",
    "reinforce_plus_plus": "#6a4c93",
    "gigpo": "#3f8f5b",
    "state_td": "#8a5a2b",
    "shuffled": "#9a9a9a",
}
SEEDS = ("#1f5fa8", "#d1731f", "#3f8f5b", "#d1495b")
AXES = {"episodes": "episodes, thousands", "cpu_s": "CPU seconds, one thread"}
TRL_AXES = {"episodes": "episodes, thousands", "seconds": "CPU seconds, one thread"}
SCALE = {"episodes": 1e-3, "cpu_s": 1.0, "seconds": 1.0}


def draw_learning(rows: Mapping[str, Row]) -> None:
    """Draw success against CPU seconds and against episodes: one panel per game."""
    found = learned(rows)
    for what, label in AXES.items():
        figure, panels = _grid(len(found) + 1, 4, (3.1, 2.5))
        for axes, (game, estimators) in zip(panels, found.items(), strict=False):
            drawn = [name for name in NAMES if estimators.get(name)]
            for name in drawn:
                line = {"ls": "--" if name == "shuffled" else "-", "label": NAMES[name]}
                curves = [run["curve"] for run in estimators[name]]
                _line(axes, curves, what, color=ESTIMATORS[name], **line)
            for player, style in (("solver", "-."), ("random", ":")):
                level = published()[f"llm_gym/{game}-v0"][player].success
                axes.axhline(level, color=INK, ls=style, lw=0.9, label=f"{player} player")
            _plain(axes, label, game)
            # The control never wins, so its episodes are long: the others set the axis.
            ends = [
                run["curve"][-1][what]
                for name in set(drawn) - {"shuffled"}
                for run in estimators[name]
            ]
            axes.set_xlim(right=1.05 * max(ends) * SCALE[what])
        handles, labels = panels[0].get_legend_handles_labels()
        panels[len(found)].legend(handles, labels, frameon=False, loc="center", fontsize=9)
        figure.savefig(IMAGES / f"learning_{what.removesuffix('_s')}.png")


def _line(axes: Axes, curves: Sequence[Sequence[Row]], what: str, **drawn: Any) -> None:
    """Draw the mean and the range of some runs; one that ended early stays level."""
    at = np.linspace(0.0, max(points[-1][what] for points in curves), 60)
    success = np.array(
        [
            np.interp(at, *([point[key] for point in points] for key in (what, "success")))
            for points in curves
        ]
    )
    at *= SCALE[what]
    axes.plot(at, success.mean(0), lw=1.6, **drawn)
    axes.fill_between(at, success.min(0), success.max(0), color=drawn["color"], alpha=0.13, lw=0)


def draw_trl(rows: dict[str, Any]) -> None:
    """Draw the mean and the range of the seeds of each arm."""
    figure, panels = _grid(2, 2, (4.6, 3.4))
    for axes, (what, label) in zip(panels, TRL_AXES.items(), strict=True):
        for (arm, name), colour in zip(ARMS.items(), (*SEEDS, "#6a4c93"), strict=True):
            if curves := [curve(row) for row in finals_of(rows, arm)]:
                _line(axes, curves, what, color=colour, label=name)
        _plain(axes, label)
    panels[1].legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(IMAGES / "trl.png")


def draw_demo(result: dict[str, Any]) -> None:
    """Draw a line per seed; a ring is the model on fresh episodes when the command was over."""
    from llm_gym_agents.commands.report import draw_references

    figure, (by_iteration, by_time) = _grid(2, 2, (4.6, 3.5))
    ring = {"marker": "o", "markersize": 8, "markerfacecolor": "none"}
    for colour, row in zip(SEEDS, result["rows"], strict=False):
        iterations, seconds, success = zip(*row["held_out"], strict=True)
        line = {"color": colour, "lw": 1.8, "marker": "o", "markersize": 3.5}
        by_iteration.plot(iterations, success, label=f"seed {row['seed']}", **line)
        by_time.plot(seconds, success, **line)
        by_time.plot(row["total_s"], row["fresh"], color=colour, clip_on=False, **ring)
    _plain(by_iteration, "iteration")
    threads = f"{result['threads']} thread{'s' * (result['threads'] != 1)}"
    _plain(by_time, f"seconds since the command was given, {threads}")
    known = published()["llm_gym/TextGameEasy-v0"]
    levels = {player: known[player].success for player in ("random", "solver")}
    draw_references(by_time, levels | {f"{result['goal']:.0%}": result["goal"]})
    by_iteration.legend(frameon=False, loc="lower right", fontsize=9)
    ring |= {"color": GREY, "linestyle": "", "label": "in the end, on 1,000 fresh episodes"}
    over = by_time.plot([], [], **ring)
    by_time.legend(handles=over, frameon=False, loc="lower right", fontsize=9)
    figure.savefig(IMAGES / "demo.png")


def _grid(count: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, ``columns`` to a row; those beyond ``count`` stay empty."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), dpi=130, layout="constrained")
    panels = list(figure.subplots(rows, columns, sharey=True, squeeze=False).ravel())
    for axes in panels:
        axes.axis("off")
    for axes in panels[::columns]:
        axes.set_ylabel("success", fontsize=8)
    return figure, panels


def _plain(axes: Axes, label: str, title: str = "") -> None:
    """Show the axes of a panel that is used."""
    axes.axis("on")
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.set_xlabel(label, fontsize=8)
    axes.set_xlim(left=0)
    axes.set_ylim(-0.02, 1.03)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


FIGURES: dict[str, Callable[[], None]] = {
    "demo": lambda: draw_demo(read("demo")),
    "learning": lambda: draw_learning(read("learning")["rows"]),
    "trl": lambda: draw_trl(read("trl_cpu")["rows"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*FIGURES, []], help="all by default")
    for name in parser.parse_args().names or FIGURES:
        FIGURES[name]()


if __name__ == "__main__":
    main()
