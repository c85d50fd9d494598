"""The mechanics of 2048, and two players: one who knows the tiles to come and one who does not.

A board is a number of 64 bits: four for each cell, row by row, that hold the exponent of its
tile, 0 where there is none. So a row has 16 bits, and whatever can happen to a row is looked up.
A direction is 0 up, 1 down, 2 left, 3 right.

Where a new tile comes and which it is follows from one *draw*, a number in [0, 1). An instance
has all its draws from the start, so that a planner can know the future.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import pairwise

import numpy as np

from llm_gym.envs.shared.bit_grid import each
from llm_gym.envs.shared.memo import Memo

Step = tuple[int, int]
Table = Memo[int, int]
FOUR = 0.1
"""Probability that a new tile is a 4 and not a 2."""
ROW = 0xFFFF
_CELLS = 0x1111_1111_1111_1111  # the lowest bit of every cell
_WIDEST = 64  # boards of one turn that a plan goes on with at most
_BACK = 32  # turns that it takes back at a dead end, for each of these boards
_TIGHT = 5  # free cells up to which the next tile is worth a look


def unpack(row: int) -> list[int]:
    """Return the four exponents of a row.

    >>> unpack(0x321)
    [1, 2, 3, 0]
    """
    return [row >> at & 15 for at in (0, 4, 8, 12)]


def pack(exponents: Sequence[int], bits: int = 4) -> int:
    """Return the numbers side by side in one, the first in the lowest bits.

    >>> hex(pack([1, 2, 3]))
    '0x321'
    """
    return sum(exponent << bits * at for at, exponent in enumerate(exponents))


def slide(row: Sequence[int]) -> list[int]:
    """Return the exponents of ``row`` after a move to the left; each tile merges at most once.

    >>> slide([1, 1, 1, 0]), slide([2, 0, 1, 1]), slide([1, 1, 1, 1])
    ([2, 1, 0, 0], [2, 2, 0, 0], [2, 2, 0, 0])
    """
    tiles: list[int] = []
    last = 0
    for tile in row:
        if tile and tile == last:
            tiles[-1], last = tile + 1, 0
        elif tile:
            tiles.append(tile)
            last = tile
    return tiles + [0] * (len(row) - len(tiles))


def line_value(row: Sequence[int], order: int) -> int:
    """Return how good a row or column is: free cells, merges to be had, and order.

    What is against the order counts by the fourth power of the exponents, since a small tile
    behind large ones is hard to get rid of.

    >>> line_value([3, 2, 1, 0], 10), line_value([2, 3, 1, 0], 10), line_value([2, 2, 1, 0], 10)
    (1000, 350, 1700)
    """
    falls = rises = 0
    for one, other in pairwise(row):
        falls += max(one**4 - other**4, 0)
        rises += max(other**4 - one**4, 0)
    free = row.count(0)
    merges = slide(row).count(0) - free
    return 1000 * free + 700 * merges - order * min(falls, rises)


def table(of_exponents: Callable[[list[int]], int]) -> Table:
    """Return what a function makes of each row, found out when it is first needed."""
    return Memo(lambda row: of_exponents(unpack(row)), size=ROW + 1)


_LEFT = table(lambda row: pack(slide(row)))
_RIGHT = table(lambda row: pack(slide(row[::-1])[::-1]))
_AS_COLUMN = table(lambda row: pack(row, bits=16))
_LARGEST = table(max)
# Against what may come a board needs order; one who knows what comes needs little of it.
_CAUTIOUS = table(lambda row: line_value(row, order=10))
_KNOWING = table(lambda row: line_value(row, order=1))


def each_row(table: Table, board: int) -> int:
    """Return the board of what ``table`` makes of the rows."""
    return (
        table[board & ROW]
        | table[board >> 16 & ROW] << 16
        | table[board >> 32 & ROW] << 32
        | table[board >> 48] << 48
    )


def transpose(board: int) -> int:
    """Return the board whose rows are the columns of ``board``."""
    return (
        _AS_COLUMN[board & ROW]
        | _AS_COLUMN[board >> 16 & ROW] << 4
        | _AS_COLUMN[board >> 32 & ROW] << 8
        | _AS_COLUMN[board >> 48] << 12
    )


def shift(board: int, way: int) -> int:
    """Return ``board`` after a move, before the new tile; the same board where nothing moves."""
    if way >= 2:
        return each_row(_RIGHT if way == 3 else _LEFT, board)
    return transpose(each_row(_RIGHT if way == 1 else _LEFT, transpose(board)))


def shifts(board: int) -> list[Step]:
    """Return the directions that change ``board``, each with what it makes of it."""
    columns = transpose(board)
    ways = (
        (0, transpose(each_row(_LEFT, columns))),
        (1, transpose(each_row(_RIGHT, columns))),
        (2, each_row(_LEFT, board)),
        (3, each_row(_RIGHT, board)),
    )
    return [(way, after) for way, after in ways if after != board]


def largest(board: int) -> int:
    """Return the exponent of the largest tile."""
    return max(
        _LARGEST[board & ROW],
        _LARGEST[board >> 16 & ROW],
        _LARGEST[board >> 32 & ROW],
        _LARGEST[board >> 48],
    )


def free_cells(board: int) -> int:
    """Return the lowest bit of each cell without a tile.

    >>> hex(free_cells(0x1234_5678_9ABC_0D0E))
    '0x1010'
    """
    filled = board | board >> 2
    return ~(filled | filled >> 1) & _CELLS


def draw_tiles(seed: int, count: int) -> tuple[float, ...]:
    """Return the draws of the instance ``seed``; a longer game goes on where a shorter one ends.

    >>> draw_tiles(7, 3) == draw_tiles(7, 5)[:3]
    True
    """
    return tuple(np.random.Generator(np.random.PCG64(seed)).random(count).tolist())


def add_tile(board: int, draw: float) -> int:
    """Return ``board`` with the new tile that ``draw`` stands for.

    >>> hex(add_tile(0, 0.0)), hex(add_tile(0x1, 0.1))  # a 4 into the first cell, then a 2
    ('0x2', '0x11')
    """
    free, four = free_cells(board), draw < FOUR
    share = draw / FOUR if four else (draw - FOUR) / (1 - FOUR)
    for _ in range(int(share * free.bit_count())):
        free &= free - 1  # without its lowest
    return board | (free & -free) << four


def value(board: int, judge: Table) -> int:
    """Return how good ``judge`` finds the rows and columns of ``board`` together."""
    columns = transpose(board)
    return (
        judge[board & ROW]
        + judge[board >> 16 & ROW]
        + judge[board >> 32 & ROW]
        + judge[board >> 48]
        + judge[columns & ROW]
        + judge[columns >> 16 & ROW]
        + judge[columns >> 32 & ROW]
        + judge[columns >> 48]
    )


def best_way(board: int) -> int:
    """Return the direction of a good player who does not know what comes.

    Where few cells are free, a board is worth what the best reply to an average new 2 is.
    """

    def merit(after: int) -> float:
        free = free_cells(after)
        if free.bit_count() > _TIGHT:
            return value(after, _CAUTIOUS)
        lost = -1_000_000
        return (
            sum(
                max([value(reply, _CAUTIOUS) for _, reply in shifts(after | 1 << at)], default=lost)
                for at in each(free)
            )
            / free.bit_count()
        )

    return max(shifts(board), key=lambda step: merit(step[1]))[0]


@lru_cache(maxsize=64)
def plan(board: int, seed: int, used: int, count: int, target: int) -> dict[int, int]:
    """Return the direction to take on each board until the exponent ``target``.

    ``seed`` and ``count`` name the draws, of which ``used`` are on the board. Empty where no plan
    is found. A beam search over the known future: of every turn, the best few boards go on. At
    first that is one; at a dead end the search goes back some turns and on with twice as many.
    """
    draws = draw_tiles(seed, count)[used:]
    came: list[dict[int, Step]] = []
    layer, width = [board], 1
    while width <= _WIDEST:
        ahead: dict[int, Step] = {}
        if len(came) < len(draws):
            draw = draws[len(came)]
            for here in layer:
                close = largest(here) == target - 1
                for way, after in shifts(here):
                    if close and largest(after) == target:
                        return _retrace(came, here, way)
                    ahead[add_tile(after, draw)] = (here, way)
        if ahead:
            came.append(ahead)
        else:
            width *= 2
            del came[-_BACK * width :]
        layer = nlargest(width, came[-1], key=_promise) if came else [board]
    return {}


def _promise(board: int) -> int:
    return value(board, _KNOWING)


def _retrace(came: list[dict[int, Step]], last: int, way: int) -> dict[int, int]:
    ways = {last: way}  # no board comes twice, as every turn adds a tile
    for ahead in reversed(came):
        last, way = ahead[last]
        ways[last] = way
    return ways
