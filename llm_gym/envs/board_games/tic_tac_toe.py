"""Tic-tac-toe against an opponent that plays some moves optimally and the others at random."""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from llm_gym import setting
from llm_gym.envs.board_games.two_player import TwoPlayerEnv, read_position

LINES = (0b111, 0b111000, 0b111000000, 0b1001001, 0b10010010, 0b100100100, 0b100010001, 0b1010100)
FULL = 0b111111111
SQUARES = {1 << at: 2 * at for at in range(9)}
WON = tuple(any(line & bits == line for line in LINES) for bits in range(FULL + 1))
"""Whether a set of squares holds a line."""


class TicTacToeEnv(TwoPlayerEnv):
    """Win at tic-tac-toe against an opponent of adjustable strength.

    Description:
        Two players take turns to put their mark on a board of nine squares; three marks in a
        row, column or diagonal win. With probability ``opponent`` the opponent plays an optimal
        move (full search; it prefers the soonest win and the latest loss), otherwise a random
        one. X moves first.

    Actions:
        The number of a free square, 1 to 9, such as ``5``, ``[5]`` or ``play 5``. Anything else,
        and a square that is taken, is unusable.

    Observations:
        The last moves of both players, the board (X, O, and the number of each free square), the
        player's mark and the turns left.

    Rewards:
        1 for a win, otherwise 0, also for a draw. With ``shaping``, the potential is the
        probability that optimal play wins from the current board.

    Episode end:
        Terminates when the player (won) or the opponent (lost) has three in a line, when the
        board is full (drawn) and after ``max_turns`` turns (lost).

    Args:
        opponent: Probability, in [0, 1], that the opponent plays optimally. At 1 nobody can win.
        begins: Who moves first: ``player``, ``opponent`` or ``random``.
        max_turns: Turns allowed, at least 5: so many fill the board.
        **common: See ``TextEnv``.
    """

    place, places, line = "square", 9, "three in a row"
    squares, full, blank = SQUARES, FULL, "1 2 3\n4 5 6\n7 8 9"
    full_answer = "Square {} is taken."

    max_turns: int = setting(9)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        # Never 1: a perfect opponent cannot be beaten.
        return {"opponent": round(0.9 * difficulty, 3)}

    def rules_text(self) -> str:
        return (
            "We play tic-tac-toe. On the board, X and O are our marks and a number is a free "
            "square; your move is the number of the square to mark. X moves first. Three of your "
            "marks in a row, column or diagonal win; a full board without a line is a draw, "
            f"which is no win. With probability {self.opponent:g} I play a best move, otherwise "
            "a random one."
        )

    def landing(self, place: int) -> int:
        return (1 << place) & ~(self._own | self._foe)

    def free(self) -> Sequence[int]:
        return _squares(FULL & ~(self._own | self._foe))

    @staticmethod
    def is_won(bits: int) -> bool:
        return WON[bits]

    def good_moves(self) -> Sequence[int]:
        return good_moves(self._foe, self._own)

    def oracle_move(self) -> str:
        return best_move(self._own, self._foe, self.turns_left, self.opponent)

    def oracle_value(self) -> float:
        return win_chance(self._own, self._foe, self.turns_left, self.opponent)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Play the move with the best chance to win on the board that the observation shows."""
        own, foe, left, strength = read_position(observations, SQUARES)
        return best_move(own, foe, left, strength)

    def potential(self) -> float:
        return self.oracle_value()


# --- best play -----------------------------------------------------------------------------


@cache
def score(own: int, foe: int) -> int:
    """Return the minimax value for the side to move: positive wins, and a sooner win is larger.

    >>> score(0, 0)  # a draw
    0
    >>> score(0b000011, 0b011000) > 0 > score(0, 0b000011 | 0b011000)
    True
    """
    free = FULL & ~(own | foe)
    if WON[foe]:
        return -1 - free.bit_count()
    return max((-score(foe, own | 1 << at) for at in _squares(free)), default=0)


@cache
def good_moves(own: int, foe: int) -> tuple[int, ...]:
    """Return all optimal moves of the side to move: those that reach its ``score``.

    >>> good_moves(0b000011, 0b011000)  # complete the top row
    (2,)
    """
    scores = {at: -score(foe, own | 1 << at) for at in _squares(FULL & ~(own | foe))}
    best = max(scores.values())
    return tuple(at for at, value in scores.items() if value == best)


def win_chance(own: int, foe: int, left: int, strength: float) -> float:
    """Return the player's chance to win by optimal play, to move with ``left`` turns left.

    >>> win_chance(0, 0, 9, 1.0), round(win_chance(0, 0, 9, 0.0), 3)
    (0.0, 0.995)
    """
    return max(_chances(own, foe, left, strength).values(), default=0.0)


def best_move(own: int, foe: int, left: int, strength: float) -> str:
    """Return the move most likely to win; among equals, the one least likely to lose."""
    chances = _chances(own, foe, left, strength)
    merits = {at: (round(chances[at], 9), -score(foe, own | 1 << at)) for at in chances}
    return str(1 + max(merits, key=lambda at: merits[at]))


def _chances(own: int, foe: int, left: int, strength: float) -> dict[int, float]:
    return {
        at: _chance_after(own | 1 << at, foe, left - 1, strength)
        for at in _squares(FULL & ~(own | foe))
    }


@lru_cache(maxsize=1 << 16)
def _chance_after(own: int, foe: int, left: int, strength: float) -> float:
    if WON[own]:
        return 1.0
    free = _squares(FULL & ~(own | foe))
    if not left or not free:
        return 0.0
    left = min(left, len(free) // 2)  # more turns than squares make no difference
    after = {
        at: 0.0 if WON[foe | 1 << at] else win_chance(own, foe | 1 << at, left, strength)
        for at in free
    }
    good = [after[at] for at in good_moves(foe, own)]
    return strength * sum(good) / len(good) + (1 - strength) * sum(after.values()) / len(free)


@cache
def _squares(bits: int) -> tuple[int, ...]:
    return tuple(at for at in range(9) if bits >> at & 1)
