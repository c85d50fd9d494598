"""Short solutions of sliding puzzles, in bounded time.

A board is the ``bytes`` of its tiles row by row, 0 being the gap; solved, the tiles ascend and
the gap is last. A direction is where the *tile* moves: 0 up, 1 down, 2 left, 3 right, so that
``direction ^ 1`` takes it back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

WIDTHS = (30, 100, 300, 1000, 3000)  # boards kept per depth: the wider, the shorter the plan


class Slides(NamedTuple):
    """What can be moved on boards of one size."""

    sources: tuple[tuple[int, ...], ...]
    """By direction and gap: the cell whose tile moves into the gap, or -1."""
    ways: tuple[tuple[int, ...], ...]
    """By gap: the directions that a tile can move in."""
    away: tuple[tuple[int, ...], ...]
    """By tile and cell: steps that the tile is away from its place."""
    solved: bytes


@lru_cache(maxsize=8)
def slides(size: int) -> Slides:
    """Return what can be moved on boards with ``size`` rows and columns.

    >>> slides(2).sources[0], slides(2).ways[3], slides(2).away[1]
    ((2, 3, -1, -1), (1, 3), (0, 1, 1, 2))
    """
    cells, last = range(size * size), size - 1
    sources = (
        tuple(at + size if at // size < last else -1 for at in cells),
        tuple(at - size if at // size else -1 for at in cells),
        tuple(at + 1 if at % size < last else -1 for at in cells),
        tuple(at - 1 if at % size else -1 for at in cells),
    )
    homes = [divmod(tile - 1, size) for tile in cells]
    return Slides(
        sources,
        tuple(tuple(way for way in range(4) if sources[way][gap] >= 0) for gap in cells),
        tuple(
            tuple(abs(at // size - row) + abs(at % size - col) if tile else 0 for at in cells)
            for tile, (row, col) in enumerate(homes)
        ),
        bytes([*range(1, size * size), 0]),
    )


def distance(board: bytes, size: int) -> int:
    """Return the steps that all tiles together are away from their places.

    >>> distance(bytes([1, 2, 0, 3]), 2)
    1
    """
    away = slides(size).away
    return sum(away[tile][at] for at, tile in enumerate(board))


def is_solvable(board: bytes, size: int) -> bool:
    """Tell whether moves can solve ``board``, which half of all arrangements cannot be.

    Every move swaps the gap with a tile, so the parity of the arrangement must be that of the
    number of steps from the gap to its corner.

    >>> is_solvable(bytes([1, 2, 0, 3]), 2), is_solvable(bytes([2, 1, 3, 0]), 2)
    (True, False)
    """
    odd, seen = (2 * size - 2 - sum(divmod(board.index(0), size))) % 2, set()
    for start in range(len(board)):
        at, length = start, 0
        while at not in seen:
            seen.add(at)
            at, length = (board[at] - 1) % len(board), length + 1
        odd ^= length > 0 and length % 2 == 0  # a cycle of even length is an odd permutation
    return not odd


@lru_cache(maxsize=256)
def plan(board: bytes, size: int, turns: int) -> dict[bytes, int]:
    """Return the direction to take on every board of one solution of at most ``turns`` moves.

    Empty where the search finds none, which does not prove that there is none.

    >>> list(plan(bytes([0, 2, 1, 3]), 2, 6).values())[::-1]
    [0, 2]
    """
    for width in WIDTHS:
        if found := _search(board, size, width, turns):
            return found
    return {}


def _search(board: bytes, size: int, width: int, depth: int) -> dict[bytes, int]:
    """Return a solution by beam search: of each depth, only the most orderly boards go on."""
    sources, ways, away, _ = slides(size)
    layer = [(distance(board, size), board, board.index(0))]
    came: dict[bytes, tuple[bytes, int]] = {board: (b"", -1)}
    for _ in range(depth):
        ahead = []
        for far, here, gap in layer:
            for way in ways[gap]:
                source = sources[way][gap]
                tile = here[source]
                tiles = bytearray(here)
                tiles[gap], tiles[source] = tile, 0
                after = bytes(tiles)
                if after in came:
                    continue
                came[after] = (here, way)
                left = far + away[tile][gap] - away[tile][source]
                if left == 0:
                    return _retrace(came, after)
                ahead.append((left, after, source))
        layer = sorted(ahead)[:width]
    return {}


def _retrace(came: dict[bytes, tuple[bytes, int]], end: bytes) -> dict[bytes, int]:
    way_there: dict[bytes, int] = {}
    here, way = came[end]
    while here:
        way_there[here] = way
        here, way = came[here]
    return way_there
