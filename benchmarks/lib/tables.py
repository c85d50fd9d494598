"""Markdown for the docs from result files: a table is its titles, their formats and its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.lib.machine import RESULTS

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
    return json.loads((RESULTS / f"{name}.json").read_text())
