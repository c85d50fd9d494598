"""Counters of a server, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class _About(NamedTuple):
    kind: str
    help: str
    label: str = ""


_METRICS = {
    "sessions": _About("gauge", "Sessions that are open."),
    "sessions_opened_total": _About("counter", "Sessions that were begun."),
    "sessions_closed_total": _About(
        "counter", "Sessions that have ended, by the reason.", "reason"
    ),
    "episodes_total": _About("counter", "Episodes that were begun."),
    "steps_total": _About("counter", "Steps that were played."),
    "errors_total": _About("counter", "Rows that were answered with an error.", "error"),
    "requests_total": _About(
        "counter", "Requests and WebSocket messages, by protocol.", "protocol"
    ),
    "refused_total": _About("counter", "Requests that were refused, by status.", "status"),
}


class ServerMetrics:
    """Counters of one server.

    >>> metrics = ServerMetrics()
    >>> metrics.add("errors_total", "lost")
    >>> [line for line in metrics.text(sessions=2).splitlines() if "errors_total{" in line]
    ['llm_gym_errors_total{error="lost"} 1']
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._buckets = [0] * len(_BOUNDS)
        self._seconds, self._answers = 0.0, 0

    def add(self, name: str, label: str = "", by: int = 1) -> None:
        self.counts[name, label] += by

    def took(self, seconds: float) -> None:
        """Add the duration of one answer to the histogram."""
        self._seconds += seconds
        self._answers += 1
        for at, bound in enumerate(_BOUNDS):
            if seconds <= bound:
                self._buckets[at] += 1
                break

    def text(self, sessions: int) -> str:
        lines = []
        for name, about in _METRICS.items():
            full = f"llm_gym_{name}"
            lines += [f"# HELP {full} {about.help}", f"# TYPE {full} {about.kind}"]
            if name == "sessions":
                lines.append(f"{full} {sessions}")
            elif not about.label:
                lines.append(f"{full} {self.counts[name, '']}")
            else:
                lines += [
                    f'{full}{{{about.label}="{label}"}} {count}'
                    for (counted, label), count in sorted(self.counts.items())
                    if counted == name
                ]
        return "\n".join([*lines, *self._histogram()]) + "\n"

    def _histogram(self) -> list[str]:
        name, below = "llm_gym_answer_seconds", 0
        lines = [f"# HELP {name} Seconds until an answer was ready.", f"# TYPE {name} histogram"]
        for bound, count in zip(_BOUNDS, self._buckets, strict=True):
            below += count
            lines.append(f'{name}_bucket{{le="{bound:g}"}} {below}')
        lines.append(f'{name}_bucket{{le="+Inf"}} {self._answers}')
        return [*lines, f"{name}_sum {self._seconds:.6f}", f"{name}_count {self._answers}"]
