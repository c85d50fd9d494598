"""Markdown for the docs from result files: a table is its titles, their formats and its rows."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.lib.machine import IMAGES, RESULTS

TEXT = ""
"""The format of a text column, which is left-aligned."""


def table(columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table; None becomes a dash, and a string stays unchanged.

    ``columns`` maps titles to formats of ``str.format``. A shorter row ends in empty cells.

    >>> print(table({"who": TEXT, "s": "{:.1f}", "times": "{:.0f}x"}, [("we", 1, 2), ("they",)]))
    | who | s | times |
    | --- | ---: | ---: |
    | we | 1.0 | 2x |
    | they | | |
    """
    formats = list(columns.values())
    lines = [_line(columns), _line("---" if format == TEXT else "---:" for format in formats)]
    for row in rows:
        values = [*row, *[""] * (len(formats) - len(row))]
        lines.append(_line(map(_cell, values, formats)))
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _cell(value: Any, format: str) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else format.format(value)


def read(name: str) -> Any:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def measured(name: str, command: str) -> Callable[[Callable[[Any], str]], Callable[[], str]]:
    """Pass the result ``name`` to a function; without it, the text says which command makes it."""

    def of(write: Callable[[Any], str]) -> Callable[[], str]:
        @functools.wraps(write)
        def written() -> str:
            if (result := read(name)) is not None:
                return write(result)
            return f"Not measured yet: `{command}` writes `benchmarks/results/{name}.json`."

        return written

    return of


def figure(name: str, about: str) -> str:
    """Return a figure of a report and a blank line; empty if the file does not exist."""
    return f"![{about}](../images/{name})\n\n" if (IMAGES / name).exists() else ""
