"""Slide numbered tiles through one gap until they are in order."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from llm_gym import ConfigError, Outcome, TextEnv, go_on, progress, reject, setting, win
from llm_gym.envs.shared.directions import direction_parser, find_directions

WIDTHS = (30, 100, 300, 1000, 3000)  # beam widths; a wider beam finds shorter plans


class Slides(NamedTuple):
    """The possible moves on boards of one size."""

    sources: tuple[tuple[int, ...], ...]
    """By direction and gap: the cell whose tile moves into the gap, or -1."""
    ways: tuple[tuple[int, ...], ...]
    """By gap: the directions that a tile can move in."""
    away: tuple[tuple[int, ...], ...]
    """By tile and cell: the distance from the cell to the tile's place."""
    names: tuple[str, ...]
    """How the gap and each tile are written."""
    solved: bytes


@lru_cache(maxsize=8)
def slides(size: int) -> Slides:
    """Return the possible moves on boards with ``size`` rows and columns.

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
    width = 1 if size < 4 else 2
    homes = [divmod(tile - 1, size) for tile in cells]
    return Slides(
        sources,
        tuple(tuple(way for way in range(4) if sources[way][gap] >= 0) for gap in cells),
        tuple(
            tuple(abs(at // size - row) + abs(at % size - col) if tile else 0 for at in cells)
            for tile, (row, col) in enumerate(homes)
        ),
        ("_" * width, *(f"{tile:{width}}" for tile in cells[1:])),
        bytes([*range(1, size * size), 0]),
    )


def distance(board: Sequence[int], size: int) -> int:
    """Return the sum of the tiles' Manhattan distances to their places.

    >>> distance(bytes([1, 2, 0, 3]), 2)
    1
    """
    away = slides(size).away
    return sum(away[tile][at] for at, tile in enumerate(board))


def is_solvable(board: bytes, size: int) -> bool:
    """Return whether ``board`` can be solved; half of all arrangements cannot.

    Every move swaps the gap with a tile, so the parity of the permutation must equal the parity of
    the distance from the gap to its corner.

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

    The result is empty if the search finds none, which does not prove that none exists.

    >>> list(plan(bytes([0, 2, 1, 3]), 2, 6).values())[::-1]
    [0, 2]
    """
    for width in WIDTHS:
        if found := _search(board, size, width, turns):
            return found
    return {}


def _search(board: bytes, size: int, width: int, depth: int) -> dict[bytes, int]:
    """Return a solution by beam search: each depth keeps only the ``width`` best boards."""
    sources, ways, away, *_ = slides(size)
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


DIRECTIONS = ("up", "down", "left", "right")
parse_slide = direction_parser(DIRECTIONS, verbs=("move", "slide"))
_BEYOND = ("below", "above", "to the right of", "to the left of")  # tile's place next to the gap
_ROW = re.compile(r"^ *(?:\d+|_+)(?: +(?:\d+|_+))+$", re.MULTILINE)
_TURNS = re.compile(r"Turns left: (\d+)")
# By size: turns that are enough for every arrangement, with some spare moves.
_ENOUGH = {2: 6, 3: 40, 4: 120}


def write_board(board: bytes | bytearray, size: int) -> str:
    r"""Return the board as the player sees it.

    >>> write_board(bytes([3, 0, 2, 1]), 2)
    '3 _\n2 1'
    """
    names = [slides(size).names[tile] for tile in board]
    return "\n".join([" ".join(names[at : at + size]) for at in range(0, size * size, size)])


@lru_cache(maxsize=1024)  # a solver reads the same episode again at every turn
def read_board(text: str) -> bytes:
    r"""Return the board in ``text``.

    >>> read_board("A board:\n3 _\n2 1\nTurns left: 8.") == bytes([3, 0, 2, 1])
    True
    """
    cells = " ".join(_ROW.findall(text)).split()
    return bytes([0 if cell[0] == "_" else int(cell) for cell in cells])


class FifteenPuzzleEnv(TextEnv):
    """Bring the tiles of a sliding puzzle into order.

    Description:
        A square board holds numbered tiles and one gap. A tile beside the gap can move into it.
        On the solved board, the tiles ascend row by row and the gap is in the bottom right
        corner. Every board can be solved within ``max_turns``.

    Actions:
        ``up``, ``down``, ``left`` or ``right``: the direction in which a tile moves, so ``up``
        moves the tile below the gap. ``north``, ``move up``, ``slide up`` and ``[up]`` also work.
        A direction in which no tile can move is unusable.

    Observations:
        The board, with underscores for the gap, and the turns left.

    Rewards:
        1 for the solved board, otherwise 0. With ``shaping``, the potential is the
        ``progress`` of the sum of the tiles' distances to their places.

    Episode end:
        Terminates on the solved board (won) and after ``max_turns`` moves (lost).

    Args:
        size: Rows and columns of the board, 2 to 6.
        scramble: Random moves that mix the solved board, none undoing the previous one; at most 6
            for size 2. None draws any solvable arrangement, for sizes up to 4.
        max_turns: Moves allowed, at least ``scramble``; if ``scramble`` is None, at least 6, 40 or
            120 for size 2, 3 or 4.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_directions)
    is_markov = True

    size: int = setting(4, 2, 6)
    scramble: int | None = setting(20)
    max_turns: int = setting(40)

    def check_settings(self) -> None:
        if self.scramble is None and self.size not in _ENOUGH:
            raise ConfigError(f"scramble must be a number for size={self.size}, got None")
        self.check_range("scramble", 1, 6 if self.size == 2 else 1000)
        self.has_splits = self.size > 2  # size 2 has only 12 boards
        least = _ENOUGH[self.size] if self.scramble is None else self.scramble
        self.check_range("max_turns", least)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        scramble = round(5 + 45 * difficulty)
        return {
            "size": 3 if difficulty < 0.5 else 4,
            "scramble": scramble,
            "max_turns": 10 + scramble,
        }

    def new_game(self, rng: np.random.Generator) -> None:
        solved = slides(self.size).solved
        self._start = solved
        while self._start == solved:
            self._way_back: list[int] = []  # the moves that undo the scramble, the next one last
            self._start = self._arrange(rng) if self.scramble is None else self._mix(rng)
        self._show(self._start)

    def _show(self, board: bytes) -> None:
        self._board = bytearray(board)
        self._text = bytearray(write_board(board, self.size), "ascii")

    def _arrange(self, rng: np.random.Generator) -> bytes:
        tiles = rng.permutation(self.size**2).tolist()
        if not is_solvable(bytes(tiles), self.size):
            one, other = [at for at in range(3) if tiles[at]][:2]
            tiles[one], tiles[other] = tiles[other], tiles[one]
        return bytes(tiles)

    def _mix(self, rng: np.random.Generator) -> bytes:
        table = slides(self.size)
        tiles, gap, undo = bytearray(table.solved), self.size**2 - 1, -1
        for draw in rng.random(self.scramble).tolist():
            ways = [way for way in table.ways[gap] if way != undo]
            way = ways[int(draw * len(ways))]
            source = table.sources[way][gap]
            tiles[gap], tiles[source] = tiles[source], 0
            gap, undo = source, way ^ 1
            self._way_back.append(undo)
        return bytes(tiles)

    def rules_text(self) -> str:
        return (
            f"This is a sliding puzzle with the tiles 1 to {self.size**2 - 1} and a gap, written "
            f"{slides(self.size).names[0]}. Your move is up, down, left or right: it slides "
            "a tile into the gap. Up moves the tile below the gap up, down the one above it, left "
            "the one to its right and right the one to its left. Bring the tiles into ascending "
            "order, row by row, with the gap in the bottom right corner."
        )

    def example_moves(self) -> Sequence[str]:
        return DIRECTIONS

    def describe(self) -> str:
        return f"{self._text.decode()}\nTurns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        way = parse_slide(move)
        if way is None:
            return reject("Your move must be up, down, left or right.")
        table, gap = slides(self.size), self._board.index(0)
        source = table.sources[way][gap]
        if source < 0:
            return reject(f"No tile is {_BEYOND[way]} the gap, so none can move {DIRECTIONS[way]}.")
        self._board[gap], self._board[source] = self._board[source], 0
        width = len(table.names[0])
        to, at = gap * (width + 1), source * (width + 1)
        text = self._text
        text[to : to + width], text[at : at + width] = text[at : at + width], text[to : to + width]
        if self._way_back and self._way_back[-1] == way:
            self._way_back.pop()
        else:
            self._way_back.append(way ^ 1)
        if self._board == table.solved:
            return win("The tiles are in order: solved.")
        return go_on(f"You move {DIRECTIONS[way]}.")

    def instance(self) -> object:
        return (self.size, self._start)

    def legal_moves(self) -> Sequence[str]:
        return [DIRECTIONS[way] for way in slides(self.size).ways[self._board.index(0)]]

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Slide a tile nearer to its place, if possible."""
        sources, ways, away, *_ = slides(self.size)
        gap, nearer = self._board.index(0), []
        for way in ways[gap]:
            tile = self._board[source := sources[way][gap]]
            if away[tile][gap] < away[tile][source]:
                nearer.append(DIRECTIONS[way])
        return nearer[int(rng.random() * len(nearer))] if nearer else self.random_move(rng)

    def oracle_move(self) -> str:
        if self.scramble is None:
            return self.solve(self._base_observations, self._base_moves)  # nothing is hidden
        ways = plan(self._start, self.size, self.max_turns)
        way = ways.get(bytes(self._board)) if len(ways) <= self.scramble else None
        return DIRECTIONS[self._way_back[-1] if way is None else way]

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Follow a plan; make a new one at a board that the plan does not contain."""
        size = math.isqrt(len(read_board(observations[0])))
        ways: dict[bytes, int] | None = None
        for seen in observations:
            board = read_board(seen)
            # If the widest search has found nothing, another search is not worth its time.
            if ways is None or (ways and board not in ways):
                ways = plan(board, size, int(_TURNS.findall(seen)[0]))
        any_way = slides(size).ways[board.index(0)][0]
        return DIRECTIONS[ways.get(board, any_way) if ways else any_way]

    def potential(self) -> float:
        return progress(distance(self._board, self.size), distance(self._start, self.size))
