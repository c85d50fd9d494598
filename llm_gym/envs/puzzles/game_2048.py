"""Merge tiles until one of them is large enough.

A board is a 64-bit number, four bits per cell, row by row: the exponent of the tile, 0 for a free
cell. So a row has 16 bits, and the result of a move on a row comes from a lookup table.
A direction is 0 up, 1 down, 2 left, 3 right.

One *draw*, a number in [0, 1), decides the cell and the value of a new tile. An instance has all
its draws from the start: ``plan`` is a player who knows the coming tiles, ``best_way`` is one who
does not.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from heapq import nlargest
from itertools import pairwise
from typing import Any

import numpy as np

from llm_gym import ConfigError, Outcome, TextEnv, go_on, lose, reject, setting, win
from llm_gym.envs.shared.bit_grid import each
from llm_gym.envs.shared.directions import direction_parser, find_directions

Step = tuple[int, int]
Table = Callable[[int], int]
FOUR = 0.1
"""Probability that a new tile is a 4 and not a 2."""
ROW = 0xFFFF
_CELLS = 0x1111_1111_1111_1111  # the lowest bit of every cell
_WIDEST = 64  # largest beam width of ``plan``
_BACK = 32  # turns to go back at a dead end, per board of the beam
_TIGHT = 5  # with at most this many free cells, ``best_way`` looks at the next tile


def unpack(row: int) -> list[int]:
    """Return the four exponents of a row.

    >>> unpack(0x321)
    [1, 2, 3, 0]
    """
    return [row >> at & 15 for at in (0, 4, 8, 12)]


def pack(exponents: Sequence[int], bits: int = 4) -> int:
    """Return the numbers packed into one integer, the first in the lowest bits.

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
    """Return the heuristic value of a row or column: free cells, possible merges, and order.

    The penalty for tiles out of order grows with the fourth power of the exponents, since a small
    tile behind large ones is hard to merge.

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
    """Return a lookup table of a function of rows; entries are computed when first needed."""
    return lru_cache(maxsize=None)(lambda row: of_exponents(unpack(row)))


_LEFT = table(lambda row: pack(slide(row)))
_RIGHT = table(lambda row: pack(slide(row[::-1])[::-1]))
_AS_COLUMN = table(lambda row: pack(row, bits=16))
_UP = table(lambda row: pack(slide(row), bits=16))
_DOWN = table(lambda row: pack(slide(row[::-1])[::-1], bits=16))
_LARGEST = table(max)
# With unknown tiles, order on the board matters; a player who knows them needs less of it.
_CAUTIOUS = table(lambda row: line_value(row, order=10))
_KNOWING = table(lambda row: line_value(row, order=1))


def rows_of(board: int) -> tuple[int, int, int, int]:
    """Return the rows of ``board``."""
    return board & ROW, board >> 16 & ROW, board >> 32 & ROW, board >> 48


def each_row(table: Table, board: int) -> int:
    """Return the board with every row replaced by its entry in ``table``."""
    one, two, three, four = map(table, rows_of(board))
    return one | two << 16 | three << 32 | four << 48


def transpose(board: int, as_column: Table = _AS_COLUMN) -> int:
    """Return the board whose columns are the rows of ``board``, as they are in the table."""
    one, two, three, four = map(as_column, rows_of(board))
    return one | two << 4 | three << 8 | four << 12


def shift(board: int, way: int) -> int:
    """Return ``board`` after a move, before the new tile; unchanged if nothing moves."""
    if way >= 2:
        return each_row(_RIGHT if way == 3 else _LEFT, board)
    return transpose(transpose(board), _DOWN if way == 1 else _UP)


def shifts(board: int) -> list[Step]:
    """Return the directions that change ``board``, each with the board it leads to."""
    return [(way, after) for way in range(4) if (after := shift(board, way)) != board]


def largest(board: int) -> int:
    """Return the exponent of the largest tile."""
    return max(map(_LARGEST, rows_of(board)))


def has_tile(board: int, exponent: int) -> bool:
    """Return whether any tile has this exponent.

    >>> has_tile(0x0310, 3), has_tile(0x0310, 2)
    (True, False)
    """
    return free_cells(board ^ exponent * _CELLS) != 0


def free_cells(board: int) -> int:
    """Return the lowest bit of each cell without a tile.

    >>> hex(free_cells(0x1234_5678_9ABC_0D0E))
    '0x1010'
    """
    filled = board | board >> 2
    return ~(filled | filled >> 1) & _CELLS


def draw_tiles(seed: int, count: int) -> tuple[float, ...]:
    """Return ``count`` draws of the instance ``seed``; a shorter list is a prefix of a longer one.

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
        free &= free - 1  # clear the lowest bit
    return board | (free & -free) << four


def value(board: int, judge: Table) -> int:
    """Return the sum of the values in ``judge`` for the rows and columns of ``board``."""
    return sum(map(judge, rows_of(board) + rows_of(transpose(board))))


def best_way(board: int) -> int:
    """Return the direction of a good player who does not know the coming tiles.

    If few cells are free, the value of a board is that of the best reply to an average new 2.
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

    ``seed`` and ``count`` define the draws; ``used`` of them are on the board already. The result
    is empty if no plan is found. This is a beam search over the known future. The beam has width 1
    at first; at a dead end the search goes back some turns and doubles the width.
    """
    draws, promise = draw_tiles(seed, count)[used:], partial(value, judge=_KNOWING)
    came: list[dict[int, Step]] = []
    layer, width = [board], 1
    while width <= _WIDEST:
        ahead: dict[int, Step] = {}
        if len(came) < len(draws):
            draw = draws[len(came)]
            for here in layer:
                for way, after in shifts(here):
                    if has_tile(after, target):
                        return _retrace(came, here, way)
                    ahead[add_tile(after, draw)] = (here, way)
        if ahead:
            came.append(ahead)
        else:
            width *= 2
            del came[-_BACK * width :]
        layer = nlargest(width, came[-1], key=promise) if came else [board]
    return {}


def _retrace(came: list[dict[int, Step]], last: int, way: int) -> dict[int, int]:
    ways = {last: way}  # no board comes twice, as every turn adds a tile
    for ahead in reversed(came):
        last, way = ahead[last]
        ways[last] = way
    return ways


DIRECTIONS = ("up", "down", "left", "right")
_PREFERRED = (1, 2, 3, 0)  # an order of directions that keeps large tiles in one corner
_MOST_TURNS = 100_000  # all tiles are drawn at the start
parse_way = direction_parser(DIRECTIONS, verbs=("move", "slide"))
_ROW = re.compile(r"^ *(?:\d+|\.)(?: +(?:\d+|\.)){3}$", re.MULTILINE)


@lru_cache(maxsize=ROW)
def write_row(row: int, width: int) -> str:
    """Return a row as the player sees it.

    >>> write_row(0x0410, 3)
    '  .   2  16   .'
    """
    return " ".join(f"{2**exponent if exponent else '.':>{width}}" for exponent in unpack(row))


def read_board(text: str) -> int:
    r"""Return the board in ``text``.

    >>> hex(read_board("2 4 . .\n16 . . .\n. . . .\n. . . .\nTurns left: 9."))
    '0x40021'
    """
    tiles = " ".join(_ROW.findall(text)).split()
    return pack([0 if tile == "." else int(tile).bit_length() - 1 for tile in tiles])


def turns_needed(target: int) -> int:
    """Return the turns in which a player who knows the coming tiles can make the ``target`` tile.

    A turn adds 2.2 to the sum of the tiles on average, so a 64 takes at least about 28 turns.

    >>> turns_needed(64), turns_needed(2048)
    (50, 1290)
    """
    return target * 5 // 8 + 10


class Game2048Env(TextEnv):
    """Merge equal tiles until the target tile appears.

    Description:
        A board of 4 by 4 cells begins with two tiles. A move slides all tiles in one direction;
        two equal tiles that meet merge into one of double value, each tile at most once per move.
        Then a new tile appears in a random free cell: a 2, or a 4 with probability 0.1. The seed
        fixes the coming tiles, which the player does not see.

    Actions:
        ``up``, ``down``, ``left`` or ``right``; ``north``, ``move up``, ``slide up`` and ``[up]``
        also work. A direction that changes nothing is unusable.

    Observations:
        The board, with a dot for a free cell, and the turns left.

    Rewards:
        1 for making the target tile, otherwise 0. With ``shaping``, the potential is the share
        of the needed doublings, from the largest tile at the start to the target, that are done.

    Episode end:
        Terminates with the target tile (won), when no move is possible (lost) and after
        ``max_turns`` moves (lost).

    Args:
        target: Tile to make, a power of two from 8 to 2048.
        max_turns: Moves allowed, at least 5/8 * ``target`` + 10.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_directions)
    is_markov = True

    target: int = setting(128)
    max_turns: int = setting(100)

    def check_settings(self) -> None:
        if not 8 <= self.target <= 2048 or self.target.bit_count() != 1:
            raise ConfigError(f"target must be a power of two from 8 to 2048, got {self.target}")
        why = "fewer turns bring too few tiles"
        self.check_range("max_turns", turns_needed(self.target), _MOST_TURNS, why)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        target = 2 ** round(5 + 4 * difficulty)
        return {"target": target, "max_turns": turns_needed(target)}

    def new_game(self, rng: np.random.Generator) -> None:
        self._seed = int(rng.random() * 2**53)
        self._draws = draw_tiles(self._seed, self.max_turns + 2)
        self._used = 2  # draws that have become tiles
        self._board = self._start = add_tile(add_tile(0, self._draws[0]), self._draws[1])
        self._anchor = (2, self._start)  # where the oracle made its plan
        self._goal, self._width = self.target.bit_length() - 1, len(str(self.target))

    def rules_text(self) -> str:
        return (
            "Your move is up, down, left or right: all tiles of the board slide that way. Two "
            "equal tiles that meet merge into one of double value, each tile at most once in a "
            f"move. Then a new tile comes into a random free cell: a 4 with probability {FOUR:g}, "
            "otherwise a 2. A move must change the board; when none can, you lose. A dot is a free "
            f"cell. Make a tile of {self.target} to win."
        )

    def example_moves(self) -> Sequence[str]:
        return DIRECTIONS

    def describe(self) -> str:
        board = "\n".join([write_row(row, self._width) for row in rows_of(self._board)])
        return f"{board}\nTurns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        way = parse_way(move)
        if way is None:
            return reject("Your move must be up, down, left or right.")
        board = shift(self._board, way)
        if board == self._board:
            return reject(f"Moving {DIRECTIONS[way]} changes nothing.")
        if has_tile(board, self._goal):
            self._board = board
            return win(f"You have made a tile of {self.target}.")
        self._board = add_tile(board, self._draws[self._used])
        self._used += 1
        if free_cells(self._board) or shifts(self._board):
            return go_on(f"You move {DIRECTIONS[way]}.")
        return lose("No move is possible any more: you lose.")

    def instance(self) -> object:
        return self._seed

    def swap_secret(self, rng: np.random.Generator) -> bool:
        """Draw new coming tiles."""
        self._seed = int(rng.random() * 2**53)
        self._draws = draw_tiles(self._seed, self.max_turns + 2)
        return True

    def legal_moves(self) -> Sequence[str]:
        return [DIRECTIONS[way] for way, _ in shifts(self._board)]

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Leave the most cells free; among equals prefer down, left, right, up."""
        free = {way: free_cells(board).bit_count() for way, board in shifts(self._board)}
        return DIRECTIONS[max((way for way in _PREFERRED if way in free), key=free.__getitem__)]

    def oracle_move(self) -> str:
        for _ in range(2):
            used, board = self._anchor
            ways = plan(board, self._seed, used, len(self._draws), self._goal)
            if (way := ways.get(self._board)) is not None:
                return DIRECTIONS[way]
            self._anchor = (self._used, self._board)  # the player has left the plan
        return DIRECTIONS[best_way(self._board)]

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Play ``best_way``: keep cells free and in order, and look ahead if few are free."""
        return DIRECTIONS[best_way(read_board(observations[-1]))]

    def potential(self) -> float:
        first = largest(self._start)
        return (largest(self._board) - first) / (self._goal - first)
