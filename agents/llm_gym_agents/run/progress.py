"""``TrainingProgress``: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from statistics import fmean
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
"""Iterations in the mean: episodes grow longer or shorter as a model learns."""


class Pace:
    """Estimates the time left.

    Iterations with an evaluation take longer. They are averaged apart, or the estimate would jump
    at every evaluation.

    Args:
        eval_interval: Iterations from one evaluation to the next; 0 for none.
        now: When the first began.
    """

    def __init__(self, eval_interval: int, now: float = 0.0) -> None:
        self._interval, self._last = eval_interval, now
        self._plain: deque[float] = deque(maxlen=RECENT)
        self._evaluated: deque[float] = deque(maxlen=RECENT)

    def tick(self, now: float, *, evaluated: bool) -> None:
        """Count an iteration, and whether it ended in an evaluation."""
        (self._evaluated if evaluated and self._interval else self._plain).append(now - self._last)
        self._last = now

    @property
    def knows_all(self) -> bool:
        """Whether an evaluation has been timed, if there will be any."""
        return not self._interval or bool(self._evaluated)

    def seconds_left(self, done: int, total: int) -> float | None:
        """Return the seconds for the iterations after ``done`` of ``total``; None before the first.

        >>> pace = Pace(5)
        >>> for at in range(1, 6):
        ...     pace.tick(at if at < 5 else 14.0, evaluated=at == 5)
        >>> pace.seconds_left(5, 15)
        28.0
        """
        if not self._plain and not self._evaluated:
            return None
        left = max(total - done, 0)
        looks = 0
        if self._interval:
            looks = total // self._interval - done // self._interval
            looks += done < total and total % self._interval != 0  # after the last one, always
        looks = min(looks, left)
        plain = fmean(self._plain or self._evaluated)
        return (left - looks) * plain + looks * fmean(self._evaluated or self._plain)


_BLOCKS = "▁▂▃▄▅▆▇█"
_SPARK_WIDTH = 40
_REFRESHES_PER_SECOND = 4


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
    """Shows iteration, metrics and the time left.

    Args:
        console: Where to; the standard output by default.
        clock: Counts seconds.
    """

    def __init__(
        self, console: Console | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console()
        self._clock = clock
        self._live: Live | None = None
        self._total = self._done = 0
        self._began = 0.0
        self._pace = Pace(0)
        self._seen: dict[str, float] = {}
        self._successes: list[float] = []
        self._doing = ""

    def start(self, total: int, done: int = 0, eval_interval: int = 0) -> None:
        """Show a run of ``total`` iterations, of which ``done`` were done before."""
        self.stop()
        self._total, self._done, self._began = total, done, self._clock()
        self._pace = Pace(eval_interval, now=self._began)
        self._seen, self._successes, self._doing = {}, [], ""
        if self._console.is_terminal:
            self._live = Live(
                console=self._console,
                get_renderable=self._render,
                refresh_per_second=_REFRESHES_PER_SECOND,
            )
            self._live.start()

    def note(self, doing: str) -> None:
        """Show the current activity; plain output leaves it out."""
        self._doing = doing

    def update(self, metrics: Mapping[str, float]) -> None:
        """Show the metrics of a finished iteration.

        On a terminal an evaluation stays in view until the next one.
        """
        self._done = int(metrics.get(ITERATION, self._done + 1))
        self._pace.tick(self._clock(), evaluated=EVAL_SUCCESS in metrics)
        self._seen.update(metrics)
        success = self._seen.get(EVAL_SUCCESS, self._seen.get(TRAIN_SUCCESS))
        if success is not None and math.isfinite(success):
            self._successes.append(success)
        self._doing = ""
        if self._live is None:
            self._console.print(self._line(metrics), highlight=False, soft_wrap=True, markup=False)
        else:
            self._live.refresh()

    def stop(self) -> None:
        """Leave the last state on the screen. Safe to call twice."""
        if self._live is not None:
            self._doing = ""
            self._live.stop()
            self._live = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _left(self) -> str | None:
        """Return the time left as text."""
        left = self._pace.seconds_left(self._done, self._total)
        if left is None:
            return None
        return f"{'' if self._pace.knows_all else 'at least '}{_clock_text(left)} left"

    def _line(self, metrics: Mapping[str, float]) -> str:
        numbers = [f"{label} {value}" for label, value in _shown(metrics)]
        left = self._left()
        time_left = [] if left is None else [left]
        return "  ".join([f"iteration {self._done}/{self._total}", *numbers, *time_left])

    def _render(self) -> RenderableType:
        head = Table.grid(padding=(0, 2), expand=True)
        head.add_column(no_wrap=True)
        head.add_column(ratio=1)
        head.add_column(no_wrap=True, justify="right")
        head.add_row(
            Text(f"iteration {self._done}/{self._total}", style="bold"),
            ProgressBar(total=max(self._total, 1), completed=self._done),
            Text(f"{_clock_text(self._clock() - self._began)} gone, {self._left() or '? left'}"),
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
        rest = [Text(_spark(self._successes), style="green")] if len(self._successes) > 1 else []
        doing = [Text(self._doing, style="dim")] if self._doing else []
        return Panel(Group(head, numbers, *rest, *doing), title="training", border_style="blue")


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


def _spark(values: list[float]) -> str:
    """Return the last values of a share from 0 to 1 as a row of bars.

    >>> _spark([0.0, 0.5, 1.0])
    '▁▅█'
    """
    top = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[math.floor(min(max(value, 0.0), 1.0) * top + 0.5)]
        for value in values[-_SPARK_WIDTH:]
    )
