"""``TrainingProgress``: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from llm_gym_agents.run.metrics import (
    ENTROPY,
    EVAL_SUCCESS,
    EXPLAINED_VARIANCE,
    ITERATION,
    KL,
    RETURN,
    TOKENS_PER_SECOND,
    TRAIN_SUCCESS,
)

# label, metric, format
_COLUMNS = (
    ("held-out success", EVAL_SUCCESS, ".1%"),
    ("success", TRAIN_SUCCESS, ".1%"),
    ("return", RETURN, ".3f"),
    ("KL", KL, ".4f"),
    ("entropy", ENTROPY, ".3f"),
    ("explained variance", EXPLAINED_VARIANCE, ".2f"),
    ("tokens/s", TOKENS_PER_SECOND, ",.0f"),
    # Only of runs on several actors.
    ("actors", "ray/actors", ".0f"),
    ("tokens/s of each", "time/actor_tokens_per_s", ",.0f"),
    ("idle", "time/actor_idle", ".0%"),
    ("queued", "ray/queued", ".0f"),
    ("staleness", "ray/staleness_mean", ".2f"),
    ("restarts", "ray/restarts", ".0f"),
)


class TrainingProgress(Progress):
    """Shows iteration, metrics and the time left."""

    def __init__(self, console: Console | None = None, **options: Any) -> None:
        console = console or Console()
        self._seen: dict[str, float] = {}
        super().__init__(
            *(TextColumn("[bold]iteration"), MofNCompleteColumn(), BarColumn(None)),
            *(TimeElapsedColumn(), TextColumn("gone,"), TimeRemainingColumn(), TextColumn("left")),
            console=console,
            disable=not console.is_terminal,
            expand=True,
            speed_estimate_period=float("inf"),  # an iteration may take minutes
            **options,
        )

    def begin(self, total: int, done: int = 0) -> None:
        """Show a run of ``total`` iterations, of which ``done`` were done before."""
        self.add_task("", total=total, completed=done)
        self.start()

    def show(self, metrics: Mapping[str, float]) -> None:
        """Show the metrics of a finished iteration.

        On a terminal an evaluation stays in view until the next one.
        """
        task = self.tasks[-1]
        self.update(task.id, completed=int(metrics.get(ITERATION, task.completed + 1)))
        self._seen.update(metrics)
        if not self.disable:
            self.refresh()
            return
        left = "?" if task.time_remaining is None else timedelta(seconds=task.time_remaining)
        numbers = [f"{label} {value}" for label, value in _shown(metrics)]
        line = [f"iteration {task.completed:g}/{task.total:g}", *numbers, f"{left} left"]
        self.console.print("  ".join(line), highlight=False, soft_wrap=True, markup=False)

    def stop(self) -> None:
        """Leave the last state on the screen. Safe to call twice."""
        if not self.disable:  # elsewhere it would print an empty line
            super().stop()

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        numbers = Table.grid(padding=(0, 2), expand=True)
        for _ in range(4):
            numbers.add_column(ratio=1)
        cells = [
            Text.assemble((label, "dim"), "\n", (value, "bold cyan"))
            for label, value in _shown(self._seen)
        ]
        for at in range(0, len(cells), 4):
            numbers.add_row(*cells[at : at + 4])
        yield numbers


def _shown(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    return [
        (label, format(metrics[metric], form))
        for label, metric, form in _COLUMNS
        if metric in metrics
    ]
