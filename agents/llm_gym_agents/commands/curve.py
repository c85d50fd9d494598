"""``draw_curve``: the learning curve of a run as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_gym.core.errors import ConfigError
from llm_gym_agents.run.files import write_atomically
from llm_gym_agents.run.metrics import (
    ELAPSED,
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
_UNITS = ((3600, "hours"), (60, "minutes"), (1, "seconds"))
_TRAIN, _EVAL, _REFERENCE, _INK = "#9ec3e6", "#1f5fa8", "#8a8a8a", "#333333"


def draw_curve(
    folder: str | Path,
    *,
    title: str | None = None,
    references: Mapping[str, float] | None = None,
    before: Mapping[str, float] | None = None,
) -> Path:
    """Draw success and return of a run over iterations and time; return the picture's path."""
    from matplotlib.figure import Figure

    rows = read_metrics(folder)
    if not rows:
        raise ConfigError(f"there is nothing to draw: {folder} has no metrics")
    rows = [{**before, ITERATION: 0}, *rows] if before else rows
    times = [name for name in (ITERATION, ELAPSED) if any(name in row for row in rows)]
    rows, unit = _in_readable_time(rows)
    figure = Figure(figsize=(4.6 * len(times), 5.4), dpi=140, layout="constrained")
    axes = figure.subplots(2, len(times), sharex="col", sharey="row", squeeze=False)
    for column, time in enumerate(times):
        _draw(axes[0][column], rows, time, TRAIN_SUCCESS, EVAL_SUCCESS)
        _draw(axes[1][column], rows, time, RETURN, EVAL_RETURN)
        draw_references(axes[0][column], references or {}, named=column == len(times) - 1)
        axes[0][column].set_ylim(-0.02, 1.02)
        axes[1][column].set_xlabel("iteration" if time == ITERATION else unit)
        axes[1][column].locator_params(axis="x", integer=time == ITERATION)
    axes[0][0].set_ylabel("success")
    axes[1][0].set_ylabel("return")
    figure.align_ylabels()
    handles, labels = axes[0][0].get_legend_handles_labels()
    if handles:
        axes[0][0].legend(handles, labels, frameon=False, loc="best", fontsize=9)
    if title:
        figure.suptitle(title, x=0.02, ha="left", fontsize=11, color=_INK)
    path, picture = Path(folder) / CURVE, io.BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())
    return path


def _in_readable_time(rows: list[Row]) -> tuple[list[Row], str]:
    """Return rows with the elapsed time in hours, minutes or seconds, and the unit."""
    longest = max((row[ELAPSED] for row in rows if ELAPSED in row), default=0.0)
    seconds, unit = next(each for each in _UNITS if longest >= 10 * each[0] or each[0] == 1)
    return [
        row | {ELAPSED: row[ELAPSED] / seconds} if ELAPSED in row else row for row in rows
    ], unit


def _draw(axes: Axes, rows: list[Row], time: str, train: str, held_out: str) -> None:
    lines: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (train, "training", {"color": _TRAIN, "linewidth": 1.4}),
        (held_out, "held out", {"color": _EVAL, "linewidth": 2.0, "marker": "o", "markersize": 3}),
    )
    for name, label, style in lines:
        points = [(row[time], row[name]) for row in rows if name in row and time in row]
        if len(points) == 1:  # a line through one point cannot be seen
            style = style | {"marker": "o"}
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
    style_axes(axes)


def style_axes(axes: Axes) -> None:
    """Style ``axes`` like all our pictures: a light grid, no frame."""
    axes.grid(color="#e8e8e8", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#bbbbbb")
    axes.tick_params(colors=_INK, labelsize=9)
    axes.set_axisbelow(True)


def draw_references(axes: Axes, references: Mapping[str, float], *, named: bool = True) -> None:
    """Draw a dashed line at each height, with its name to the right if ``named``."""
    for name, height in references.items():
        axes.axhline(height, color=_REFERENCE, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0)
        if named:
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
