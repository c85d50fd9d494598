"""The geometry of a minefield: what lies around a cell, and where it stands in the text.

A cell is the number ``row * cols + column``; a set of cells may also be a bit mask of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

MINE = -1
"""The number of a cell that is a mine."""


@lru_cache(maxsize=32)
def neighbours(rows: int, cols: int) -> tuple[tuple[int, ...], ...]:
    """Return the cells around each cell.

    >>> neighbours(2, 3)[0], neighbours(2, 3)[4]
    ((1, 3, 4), (0, 1, 2, 3, 5))
    """
    return tuple(
        tuple(
            other_row * cols + other_col
            for other_row in range(max(row - 1, 0), min(row + 2, rows))
            for other_col in range(max(col - 1, 0), min(col + 2, cols))
            if (other_row, other_col) != (row, col)
        )
        for row in range(rows)
        for col in range(cols)
    )


@lru_cache(maxsize=32)
def rings(rows: int, cols: int) -> tuple[int, ...]:
    """Return the cells around each cell as masks."""
    return tuple(sum(1 << cell for cell in around) for around in neighbours(rows, cols))


def number_cells(rows: int, cols: int, mines: Sequence[int]) -> list[int]:
    """Return for each cell how many mines are around it, or ``MINE``.

    >>> number_cells(2, 3, [0, 3])
    [-1, 2, 0, -1, 2, 0]
    """
    around, numbers = neighbours(rows, cols), [0] * (rows * cols)
    for mine in mines:
        for cell in around[mine]:
            numbers[cell] += 1
    for mine in mines:
        numbers[mine] = MINE
    return numbers


class Chart(NamedTuple):
    """How a field is written down."""

    blank: bytes
    """The text of a field with every cell hidden."""
    places: tuple[int, ...]
    """Where each cell stands in the text."""


@lru_cache(maxsize=32)
def chart(rows: int, cols: int) -> Chart:
    r"""Return how a field of this size is written down.

    >>> chart(2, 3).blank.decode()
    '   0 1 2\n0| . . .\n1| . . .'
    """
    width = len(str(max(rows, cols) - 1))
    lines = [" " * width + " " + "".join(f" {col:>{width}}" for col in range(cols))]
    lines += [f"{row:>{width}}|" + f" {'.':>{width}}" * cols for row in range(rows)]
    text = "\n".join(lines)
    return Chart(
        text.encode(),
        tuple(at for at, char in enumerate(text) if char == "."),
    )
