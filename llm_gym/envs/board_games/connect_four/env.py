"""Connect four against an opponent that looks ahead now and then."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from llm_gym.core.env import CommonArgs
from llm_gym.envs.board_games.connect_four.search import (
    BOARD,
    BOTTOM,
    COLUMN,
    COLUMNS,
    HEIGHT,
    ROWS,
    has_four,
    look_ahead,
)
from llm_gym.envs.board_games.two_player import Beginner, TwoPlayerEnv, read_position
from llm_gym.envs.shared.memo import Memo

OPPONENT_DEPTH, ORACLE_DEPTH = 1, 3
_ROW = re.compile(r"^(?:[.XO] ){6}[.XO]$", re.MULTILINE)
_TOP = BOTTOM << ROWS - 1
# The columns that have room, by the squares of the top row that are taken.
_FREE = Memo[int, tuple[int, ...]](
    lambda top: tuple([place for place, column in enumerate(COLUMN) if not top & column])
)
_OFFSETS = {
    1 << HEIGHT * column + row: 2 * COLUMNS * (ROWS - 1 - row) + 2 * column
    for column in range(COLUMNS)
    for row in range(ROWS)
}
# How often the oracle won 2000 games against opponents of these strengths, when it began and when
# the opponent did; never losing is written as one loss too few to see. The tests measure it again.
_STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
_CHANCES = {
    True: (0.9995, 0.9995, 0.995, 0.981, 0.9995),
    False: (0.9995, 0.999, 0.993, 0.949, 0.8875),
}


class ConnectFourEnv(TwoPlayerEnv):
    """Win at connect four against an opponent of adjustable strength.

    Description:
        Two players drop discs into seven columns of six squares in turn; four discs in a line,
        in any direction, win. With probability ``opponent`` the opponent plays a good move: it
        completes a four, blocks one, does not hand one over, and otherwise takes what looks best
        one move ahead. Else it plays at random. X moves first.

    Actions:
        The number of a column with room, 1 to 7, such as ``4``, ``[4]`` or ``drop in column 4``.
        Anything else, and a full column, is unusable.

    Observations:
        What both played, the board (X, O, a dot for an empty square, the columns' numbers below),
        the player's mark and the turns left.

    Rewards:
        1 for a four of one's own, otherwise 0: a draw is no win. There is no shaping.

    Episode end:
        Terminates with a four of the player's (won) or the opponent's (lost), on a full board
        (drawn) and after ``max_turns`` turns (lost).

    Info:
        The common keys: ``move``, ``reader``, ``valid_action``, ``success``, ``stop_reason``,
        ``reward_terms``, ``turn``, ``invalid_actions``.

    Args:
        opponent: Probability, in [0, 1], that the opponent plays a good move.
        begins: Who moves first: ``player``, ``opponent`` or ``random``.
        max_turns: Turns allowed, at least the 21 that fill the board.
        **common: See ``TextEnv``.

    Version history:
        v0: First release.
    """

    place, places, full, line = "column", COLUMNS, BOARD, "four in a line"
    blank = ". . . . . . .\n" * ROWS + "1 2 3 4 5 6 7"
    full_answer = "Column {} is full."

    def __init__(
        self,
        *,
        opponent: float = 0.5,
        begins: Beginner = "random",
        max_turns: int = 30,
        **common: Unpack[CommonArgs],
    ) -> None:
        super().__init__(opponent=opponent, begins=begins, max_turns=max_turns, **common)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        return {"opponent": difficulty}

    def rules_text(self) -> str:
        return (
            f"We play connect four. Your move is the number of a column, 1 to {COLUMNS}; your disc "
            "falls to its lowest empty square. On the board, X and O are our discs and a dot is "
            "an empty square. X moves first. Four of your discs in a row, column or diagonal win; "
            "a full board without a line is a draw, which is no win. With probability "
            f"{self.opponent:g} I play a good move, otherwise a random one."
        )

    def landing(self, place: int) -> int:
        return (self._own | self._foe) + BOTTOM & COLUMN[place]

    def free(self) -> Sequence[int]:
        return _FREE[(self._own | self._foe) & _TOP]

    def offset(self, bit: int) -> int:
        return _OFFSETS[bit]

    def is_won(self, bits: int) -> bool:
        return has_four(bits)

    def good_moves(self) -> Sequence[int]:
        return look_ahead(self._foe, self._own, OPPONENT_DEPTH)[0]

    def oracle_move(self) -> str:
        return best_move(self._own, self._foe)

    def oracle_value(self) -> float:
        """Return the measured chance from the start; 1 once a forced win is in sight."""
        if look_ahead(self._own, self._foe, ORACLE_DEPTH)[1]:
            return 1.0
        return float(np.interp(self.opponent, _STRENGTHS, _CHANCES[self._first]))

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Look ahead on the board that is shown."""
        text, mark, _, _ = read_position(observations)
        own = foe = 0
        for at, square in enumerate("".join(_ROW.findall(text)).replace(" ", "")):
            if square != ".":
                bit = 1 << HEIGHT * (at % COLUMNS) + ROWS - 1 - at // COLUMNS
                own, foe = (own | bit, foe) if square == mark else (own, foe | bit)
        return best_move(own, foe)


def best_move(own: int, foe: int) -> str:
    """Return the move of the strongest player here, as a column's number.

    >>> best_move(0, 0)
    '4'
    """
    return str(1 + look_ahead(own, foe, ORACLE_DEPTH)[0][0])
