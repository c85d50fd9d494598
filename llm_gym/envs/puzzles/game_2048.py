"""Merge tiles until one of them is large enough."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from llm_gym.core.env import TextEnv
from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import Outcome, go_on, lose, reject, win
from llm_gym.core.settings import setting
from llm_gym.envs.puzzles.game_2048_planner import (
    FOUR,
    ROW,
    add_tile,
    best_way,
    draw_tiles,
    free_cells,
    largest,
    pack,
    plan,
    shift,
    shifts,
    unpack,
)
from llm_gym.envs.shared.directions import direction_parser, find_directions

DIRECTIONS = ("up", "down", "left", "right")
_PREFERRED = (1, 2, 3, 0)  # of a player who keeps large tiles in one corner
_MOST_TURNS = 100_000  # tiles that are drawn beforehand
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
    """Return the turns that one who knows what comes can make the ``target`` tile in.

    A turn adds 2.2 on average, so that no tile of 64 can be there before turn 28 or so.

    >>> turns_needed(64), turns_needed(2048)
    (50, 1290)
    """
    return target * 5 // 8 + 10


class Game2048Env(TextEnv):
    """Merge equal tiles until the target tile appears.

    Description:
        A board of 4 by 4 cells begins with two tiles. A move slides all tiles in one direction;
        two equal ones that meet merge into one of double value, each at most once a move. Then a
        new tile comes into a random free cell: mostly a 2, at times a 4. The tiles to come are
        part of the instance, so the episodes of one seed can be compared; the player does not see
        them.

    Actions:
        ``up``, ``down``, ``left`` or ``right``; ``north``, ``move up``, ``slide up`` and ``[up]``
        do too. A direction that changes nothing is unusable.

    Observations:
        The board, with a dot for a free cell, and the turns left.

    Rewards:
        1 for making the target tile, otherwise 0. With ``shaping``, the potential is the share
        of the doublings from the first largest tile to the target.

    Episode end:
        Terminates with the target tile (won), when no move is possible (lost) and after
        ``max_turns`` moves (lost).

    Args:
        target: Tile to make, a power of two from 8 to 2048.
        max_turns: Moves allowed, at least 5/8 of ``target`` and 10 more.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_directions)
    observation_says_all = True

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
        board, width = self._board, self._width
        return (
            f"{write_row(board & ROW, width)}\n{write_row(board >> 16 & ROW, width)}\n"
            f"{write_row(board >> 32 & ROW, width)}\n{write_row(board >> 48, width)}\n"
            f"Turns left: {self.max_turns - self._base_turn}."
        )

    def apply(self, move: str) -> Outcome:
        way = parse_way(move)
        if way is None:
            return reject("Your move must be up, down, left or right.")
        board = shift(self._board, way)
        if board == self._board:
            return reject(f"Moving {DIRECTIONS[way]} changes nothing.")
        if largest(board) == self._goal:
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
        """Draw the tiles to come anew."""
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
            self._anchor = (self._used, self._board)  # somebody else has left the plan
        return DIRECTIONS[best_way(self._board)]

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Keep the board free and in order, looking ahead where it gets tight."""
        return DIRECTIONS[best_way(read_board(observations[-1]))]

    def potential(self) -> float:
        first = largest(self._start)
        return (largest(self._board) - first) / (self._goal - first)
