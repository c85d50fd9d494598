"""The figure of ``peers/trl_train.py``: success against episodes and CPU seconds, both sides."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

IMAGES = Path(__file__).parents[2] / "docs" / "images"
AXES = {"episodes": "episodes, thousands", "cpu_s": "CPU seconds, one thread"}
SCALE = {"episodes": 1e-3, "cpu_s": 1.0}
STYLES = ("-", "--", ":", "-.")
"""Of the settings of one side."""
COLOURS = {"trl": "#d1495b", "ours": "#1f5fa8"}


def draw(rows: dict[str, Any], stage: str = "final", path: Path = IMAGES / "trl.png") -> None:
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
            colour = "#3aa6b9" if side == "ours" and "grpo" in setting else COLOURS[side]
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
