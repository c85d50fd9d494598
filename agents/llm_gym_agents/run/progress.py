"""``TrainingProgress``: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
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

RECENT = 20
"""Iterations whose mean gives the time left: they grow longer or shorter as a model learns."""


class _Column(NamedTuple):
    """One number of the display."""

    label: str
    metric: str
    form: str


_COLUMNS = (
    _Column("held-out success", EVAL_SUCCESS, ".1%"),
    _Column("success", TRAIN_SUCCESS, ".1%"),
    _Column("return", RETURN, ".3f"),
    _Column("KL", KL, ".4f"),
    _Column("entropy", ENTROPY, ".3f"),
    _Column("explained variance", EXPLAINED_VARIANCE, ".2f"),
    _Column("tokens/s", TOKENS_PER_SECOND, ",.0f"),
    # Only of runs on several actors.
    _Column("actors", "ray/actors", ".0f"),
    _Column("tokens/s of each", "time/actor_tokens_per_s", ",.0f"),
    _Column("idle", "time/actor_idle", ".0%"),
    _Column("queued", "ray/queued", ".0f"),
    _Column("staleness", "ray/staleness_mean", ".2f"),
    _Column("restarts", "ray/restarts", ".0f"),
)


class TrainingProgress:
    """Shows iteration, metrics and the time left."""

    def __init__(
        self, console: Console | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console()
        self._clock = clock
        self._live: Live | None = None
        self._total = self._done = 0
        self._began = 0.0
        self._ends: deque[float] = deque(maxlen=RECENT + 1)
        self._seen: dict[str, float] = {}

    def start(self, total: int, done: int = 0) -> None:
        """Show a run of ``total`` iterations, of which ``done`` were done before."""
        self.stop()
        self._total, self._done, self._began = total, done, self._clock()
        self._ends.append(self._began)
        if self._console.is_terminal:
            self._live = Live(console=self._console, get_renderable=self._render)
            self._live.start()

    def update(self, metrics: Mapping[str, float]) -> None:
        """Show the metrics of a finished iteration.

        On a terminal an evaluation stays in view until the next one.
        """
        self._done = int(metrics.get(ITERATION, self._done + 1))
        self._ends.append(self._clock())
        self._seen.update(metrics)
        if self._live is not None:
            self._live.refresh()
            return
        numbers = [f"{label} {value}" for label, value in _shown(metrics)]
        line = [f"iteration {self._done}/{self._total}", *numbers, self._left()]
        self._console.print("  ".join(line), highlight=False, soft_wrap=True, markup=False)

    def stop(self) -> None:
        """Leave the last state on the screen. Safe to call twice."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _left(self) -> str:
        if len(self._ends) < 2:
            return "? left"
        each = (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)
        return f"{_clock_text(each * max(self._total - self._done, 0))} left"

    def _render(self) -> RenderableType:
        head = Table.grid(padding=(0, 2), expand=True)
        for how in ({}, {"ratio": 1}, {"justify": "right"}):
            head.add_column(no_wrap=True, **how)
        head.add_row(
            Text(f"iteration {self._done}/{self._total}", style="bold"),
            ProgressBar(total=max(self._total, 1), completed=self._done),
            Text(f"{_clock_text(self._clock() - self._began)} gone, {self._left()}"),
        )
        numbers = Table.grid(padding=(0, 2), expand=True)
        for _ in range(4):
            numbers.add_column(ratio=1)
        cells = [
            Text.assemble((label, "dim"), "\n", (value, "bold cyan"))
            for label, value in _shown(self._seen)
        ]
        for at in range(0, len(cells), 4):
            numbers.add_row(*cells[at : at + 4])
        return Panel(Group(head, numbers), title="training", border_style="blue")


def _shown(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    return [
        (column.label, format(metrics[column.metric], column.form))
        for column in _COLUMNS
        if column.metric in metrics
    ]


def _clock_text(seconds: float) -> str:
    """Return seconds as minutes and seconds, or hours.

    >>> _clock_text(75), _clock_text(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
