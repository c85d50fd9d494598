"""``draw_curve``: the learning curve of a run as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_gym.core.errors import ConfigError
from llm_gym_agents.run.files import write_atomically
from llm_gym_agents.run.metrics import (
    EVAL_RETURN,
    EVAL_SUCCESS,
    ITERATION,
    RETURN,
    TRAIN_SUCCESS,
    Row,
    read_metrics,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE = "curve.png"
_TRAIN, _EVAL, _REFERENCE, _INK = "#9ec3e6", "#1f5fa8", "#8a8a8a", "#333333"


def draw_curve(
    folder: str | Path,
    *,
    title: str | None = None,
    references: Mapping[str, float] | None = None,
    before: Mapping[str, float] | None = None,
) -> Path:
    """Draw success and return of a run over its iterations; return the picture's path."""
    from matplotlib.figure import Figure

    rows = read_metrics(folder)
    if not rows:
        raise ConfigError(f"there is nothing to draw: {folder} has no metrics")
    rows = [{**before, ITERATION: 0}, *rows] if before else rows
    figure = Figure(figsize=(6.4, 5.4), dpi=140, layout="constrained")
    success, earned = figure.subplots(2, 1, sharex=True)
    _draw(success, rows, "success", TRAIN_SUCCESS, EVAL_SUCCESS)
    _draw(earned, rows, "return", RETURN, EVAL_RETURN)
    draw_references(success, references or {})
    success.set_ylim(-0.02, 1.02)
    earned.set_xlabel("iteration")
    earned.locator_params(axis="x", integer=True)
    figure.align_ylabels()
    if success.get_legend_handles_labels()[0]:
        success.legend(frameon=False, loc="best", fontsize=9)
    if title:
        figure.suptitle(title, x=0.02, ha="left", fontsize=11, color=_INK)
    path, picture = Path(folder) / CURVE, io.BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())
    return path


def _draw(axes: Axes, rows: list[Row], what: str, train: str, held_out: str) -> None:
    lines: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (train, "training", {"color": _TRAIN, "linewidth": 1.4}),
        (held_out, "held out", {"color": _EVAL, "linewidth": 2.0, "marker": "o", "markersize": 3}),
    )
    for name, label, style in lines:
        points = [(row[ITERATION], row[name]) for row in rows if name in row]
        if len(points) == 1:  # a line through one point cannot be seen
            style = style | {"marker": "o"}
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
    axes.set_ylabel(what)
    axes.grid(color="#e8e8e8", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#bbbbbb")
    axes.tick_params(colors=_INK, labelsize=9)
    axes.set_axisbelow(True)


def draw_references(axes: Axes, references: Mapping[str, float]) -> None:
    """Draw a dashed line at each height, with its name to the right."""
    for name, height in references.items():
        axes.axhline(height, color=_REFERENCE, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0)
        axes.annotate(
            name,
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=_REFERENCE,
            annotation_clip=False,
        )
