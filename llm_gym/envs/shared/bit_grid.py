"""Square grids as bit boards: a set of cells is one int, and one shift moves all of them.

Cells count row by row. The outermost ones must be walls, so that a shifted set never leaks into
the next row. Directions are up, right, down and left; a step is what to add to a cell.
"""

from collections.abc import Iterator

DIRECTIONS = ("up", "right", "down", "left")


def steps(size: int) -> tuple[int, int, int, int]:
    """Return the steps from cell to cell, in the order of ``DIRECTIONS``."""
    return -size, 1, size, -1


def shift(cells: int, step: int) -> int:
    """Return ``cells`` moved by ``step``.

    >>> shift(0b0110, 1), shift(0b0110, -1)
    (12, 3)
    """
    return cells << step if step > 0 else cells >> -step


def each(cells: int) -> Iterator[int]:
    """Yield the places in ``cells``, lowest first.

    >>> list(each(0b1010))
    [1, 3]
    """
    while cells:
        low = cells & -cells
        yield low.bit_length() - 1
        cells ^= low


def waves(at: int, free: int, size: int) -> list[int]:
    """Return the sets of cells that take 0, 1, 2, ... moves over ``free`` cells from ``at``."""
    wave = 1 << at
    found, left = [wave], free & ~wave
    while wave := (wave << 1 | wave >> 1 | wave << size | wave >> size) & left:
        found.append(wave)
        left ^= wave
    return found


def reach(at: int, free: int, size: int) -> int:
    """Return every cell that can be walked to from ``at`` over ``free`` cells."""
    seen, wave = 0, 1 << at
    while wave != seen:
        seen = wave
        wave |= (wave << 1 | wave >> 1 | wave << size | wave >> size) & free
    return seen


def walk(at: int, to: int, free: int, size: int) -> list[int]:
    """Return the directions of a shortest walk from ``at`` to ``to``, which must be reachable.

    >>> walk(5, 10, free=0b0000_0110_0110_0000, size=4)
    [1, 2]
    """
    back = waves(to, free | 1 << at, size)
    far = next(moves for moves, wave in enumerate(back) if wave >> at & 1)
    ways = []
    for wave in reversed(back[:far]):
        way = next(way for way, step in enumerate(steps(size)) if wave >> (at + step) & 1)
        ways.append(way)
        at += steps(size)[way]
    return ways
