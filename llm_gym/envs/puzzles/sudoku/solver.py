"""Sudoku by elimination: what a grid leaves open, and all that solves it.

A grid is a string with one character per cell, row by row: a digit, or anything else where the
cell is open. While solving, a cell is a bit mask of the digits that it may still hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple


class Layout(NamedTuple):
    """Which cells of a grid must differ."""

    units: tuple[tuple[int, ...], ...]
    """The cells of each row, then each column, then each box."""
    peers: tuple[tuple[int, ...], ...]
    """For each cell, the others of its row, column and box."""


@lru_cache(maxsize=4)
def layout(size: int) -> Layout:
    """Return which cells must differ in a grid of ``size`` rows and columns.

    >>> layout(4).units[8], layout(4).peers[0]
    ((0, 1, 4, 5), (1, 2, 3, 4, 5, 8, 12))
    """
    box, side = math.isqrt(size), range(size)
    rows = [tuple(size * row + col for col in side) for row in side]
    columns = [tuple(size * row + col for row in side) for col in side]
    boxes = [
        tuple(size * (top + row) + left + col for row in range(box) for col in range(box))
        for top in range(0, size, box)
        for left in range(0, size, box)
    ]
    units = (*rows, *columns, *boxes)
    return Layout(
        units,
        tuple(
            tuple(sorted({at for unit in units if cell in unit for at in unit} - {cell}))
            for cell in range(size * size)
        ),
    )


def solutions(grid: str, limit: int = 2) -> list[str]:
    """Return up to ``limit`` solutions of ``grid``; two are enough to see that it has not one.

    >>> solutions("12..34...1..4...")
    ['1234341221434321', '1234342121434312']
    >>> solutions("11.............."), len(solutions("." * 16, limit=1000))
    ([], 288)
    """
    size = math.isqrt(len(grid))
    everything, open_cells = (1 << size) - 1, [(1 << size) - 1] * len(grid)
    for cell, char in enumerate(grid):
        if char.isdigit() and not _set(open_cells, size, cell, 1 << int(char) - 1):
            return []
    return list(islice(_search(open_cells, size, everything), limit))


@lru_cache(maxsize=64)
def solution(grid: str) -> str:
    """Return the first solution of ``grid``, which must have one."""
    return solutions(grid, limit=1)[0]


def _set(cells: list[int], size: int, cell: int, digit: int) -> bool:
    """Put ``digit`` into ``cell`` and follow what that settles; False where nothing is left."""
    if not cells[cell] & digit:
        return False
    cells[cell] = digit
    peers, settled = layout(size).peers, [cell]
    for at in settled:  # grows while it is read
        for peer in peers[at]:
            if cells[peer] & cells[at]:
                cells[peer] ^= cells[at]
                if not cells[peer]:
                    return False
                if cells[peer].bit_count() == 1:
                    settled.append(peer)
    return True


def _place_singles(cells: list[int], size: int, everything: int) -> bool:
    """Set every digit that has one cell left in a unit; False where one has none."""
    progress = True
    while progress:
        progress = False
        for unit in layout(size).units:
            once = more = 0
            for cell in unit:
                more |= once & cells[cell]
                once |= cells[cell]
            if once != everything:
                return False
            once &= ~more
            for cell in unit:
                if (digit := cells[cell] & once) and digit != cells[cell]:
                    if not _set(cells, size, cell, digit & -digit):
                        return False
                    progress = True
    return True


def _search(cells: list[int], size: int, everything: int) -> Iterator[str]:
    if not _place_singles(cells, size, everything):
        return
    left = [(mask.bit_count(), at) for at, mask in enumerate(cells) if mask.bit_count() > 1]
    if not left:
        yield "".join([str(mask.bit_length()) for mask in cells])
        return
    _, cell = min(left)
    for digit in range(size):
        if cells[cell] >> digit & 1:
            copy = cells.copy()
            if _set(copy, size, cell, 1 << digit):
                yield from _search(copy, size, everything)
