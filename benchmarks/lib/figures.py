"""The figures of README and reports, from result files.

python -m benchmarks.lib.figures            # draw every figure again
python -m benchmarks.lib.figures demo trl   # draw these
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.lib.curves import NAMES, Row, learned, smooth
from benchmarks.lib.machine import IMAGES
from benchmarks.lib.tables import read
from llm_gym.evaluate.scores import published

INK, GREY = "#333333", "#8a8a8a"
ESTIMATORS = {
    "gae": "#1f5fa8",
    "gae_turn": "#3aa6b9",
    "grpo": "#d1495b",
    "rloo": "#e2a03f",
    "reinforce_plus_plus": "#6a4c93",
    "shuffled": "#9a9a9a",
}
SIDES = {"trl": "#d1495b", "ours": "#1f5fa8"}
SEEDS = ("#1f5fa8", "#d1731f", "#3f8f5b")
STYLES = ("-", "--", ":", "-.")
AXES = {"episodes": "episodes, thousands", "cpu_s": "CPU seconds, one thread"}
SCALE = {"episodes": 1e-3, "cpu_s": 1.0}


def draw_learning(rows: Mapping[str, Row], folder: Path = IMAGES) -> None:
    """Draw success against CPU seconds and against episodes: one panel per game."""
    for what in AXES:
        _draw_learning(rows, what, folder / f"learning_{what.removesuffix('_s')}.png")


def _draw_learning(rows: Mapping[str, Row], what: str, path: Path) -> None:
    """Draw success against ``what``: the mean of the seeds, and between which they lie."""
    found = learned(rows)
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
    how: dict[str, Any] = {"color": ESTIMATORS[name], "linewidth": 1.6, "label": NAMES[name]}
    axes.plot(at, success.mean(0), linestyle="--" if name == "shuffled" else "-", **how)
    axes.fill_between(at, success.min(0), success.max(0), color=ESTIMATORS[name], alpha=0.13, lw=0)


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


def draw_trl(rows: dict[str, Any], stage: str = "final", path: Path = IMAGES / "trl.png") -> None:
    """Draw the mean of the seeds of each setting of a stage, and between which they lie."""
    sides: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for key, row in rows.items():
        if key.startswith(f"{stage}/") and "curve" in row:
            sides[row["side"], row["setting"]].append(row["curve"])
    figure = Figure(figsize=(9.2, 3.4), dpi=130, layout="constrained")
    for axes, (what, label) in zip(figure.subplots(1, 2, sharey=True), AXES.items(), strict=True):
        for (side, setting), curves in sides.items():
            length = min(map(len, curves))
            at, success = (
                np.array([[point[name] for point in curve[:length]] for curve in curves])
                for name in (what, "success")
            )
            x = at.mean(0) * SCALE[what]
            colour = "#3aa6b9" if side == "ours" and "grpo" in setting else SIDES[side]
            name = {"trl": "TRL", "ours": "llm-gym"}[side]
            drawn = sum(line.get_color() == colour for line in axes.lines)
            dashes = STYLES[drawn % len(STYLES)]
            axes.plot(x, success.mean(0), dashes, color=colour, label=f"{name}: {setting}")
            axes.fill_between(x, success.min(0), success.max(0), color=colour, alpha=0.15, lw=0)
        axes.set_xlabel(label)
        axes.set_ylim(0, 1)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("held-out success")
    figure.axes[1].legend(frameon=False, fontsize=7, loc="upper right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def draw_trl_gpu(result: dict[str, Any], path: Path = IMAGES / "trl_gpu.png") -> None:
    """Draw every run of both sides against seconds and against episodes; the best rates in full."""
    figure = Figure(figsize=(9.2, 3.4), dpi=130, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    best = set(result["summary"]["best"].values())
    for name, run in sorted(result["sides"].items(), key=lambda each: each[0]):
        if not run["rows"]:
            continue
        setting = name.partition(", seed")[0]
        style = "-" if setting in best else ":"
        success = smooth([row["success"] for row in run["rows"]])
        label = setting.replace("ours", "llm-gym").replace("trl", "TRL")
        for axes, what in zip(panels, ("seconds", "episodes"), strict=True):
            at = [row[what] for row in run["rows"]]
            how = {"color": SIDES[run["side"]], "linestyle": style, "label": label}
            axes.plot(at, success, linewidth=1.4, **how)
    for axes, label in zip(panels, ("seconds of one H200", "episodes"), strict=True):
        _plain(axes, label)
    panels[0].set_ylabel("success while training")
    lines = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    panels[0].legend(
        lines.values(), lines, frameon=False, fontsize=8, title="a line is a seed", title_fontsize=8
    )
    figure.savefig(path)


def draw_real_model(result: dict[str, Any], path: Path = IMAGES / "real_model.png") -> None:
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
            success += smooth([point[1] for point in run["curve"]])
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


def draw_demo(result: dict[str, Any], path: Path = IMAGES / "demo.png") -> None:
    """Draw a line per seed; a ring is the model on fresh episodes when the command was over."""
    from llm_gym_agents.commands.curve import draw_references

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


def _finish(axes: Axes, along: str) -> None:
    axes.set_xlabel(along)
    axes.set_xlim(left=0)
    axes.set_ylim(-0.02, 1.02)
    axes.spines[["top", "right"]].set_visible(False)


def _references(goal: float) -> dict[str, float]:
    known = published()["llm_gym/TextGameEasy-v0"]
    lines = {player: known[player].success for player in ("random", "solver")}
    return {**lines, f"{goal:.0%}": goal}


def _threads(result: dict[str, Any]) -> str:
    count = result["threads"]
    return f"{count} thread{'s' * (count != 1)}"


FIGURES: dict[str, Callable[[], None]] = {
    "demo": lambda: draw_demo(read("demo")),
    "learning": lambda: draw_learning(
        read("learning")["rows"], list(learned(read("learning")["rows"]))
    ),
    "trl": lambda: draw_trl(read("trl_train")["rows"]),
    "trl_gpu": lambda: draw_trl_gpu(read("trl_gpu")),
    "real_model": lambda: draw_real_model(read("real_model")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*FIGURES, []], default=list(FIGURES))
    for name in parser.parse_args().names:
        FIGURES[name]()


if __name__ == "__main__":
    main()
