"""Connect four against an opponent that plays some moves well and the others at random."""

from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

from llm_gym import setting
from llm_gym.envs.board_games.two_player import TwoPlayerEnv, read_position

ROWS, COLUMNS = 6, 7
HEIGHT = ROWS + 1
_ACROSS = (HEIGHT - 1, HEIGHT, HEIGHT + 1)  # from a square to the next of a line
BOTTOM = sum(1 << HEIGHT * column for column in range(COLUMNS))
BOARD = BOTTOM * ((1 << ROWS) - 1)
COLUMN = tuple(((1 << ROWS) - 1) << HEIGHT * column for column in range(COLUMNS))
_ODD = BOTTOM * 0b010101  # the first, third and fifth row: good for the side that moves first
_EVEN = _ODD << 1
_MIDDLE, _INNER = COLUMN[3], COLUMN[2] | COLUMN[4]
_ORDER = (3, 2, 4, 1, 5, 0, 6)  # from the middle: where most lines meet
_WIN, _DECIDED = 1000, 500


def has_four(bits: int) -> bool:
    """Return whether four of ``bits`` are in a line.

    >>> has_four(0b1111), has_four(0b0111), has_four(0b1111000)  # three below the top, one above
    (True, False, True)
    """
    for step in (1, *_ACROSS):
        pairs = bits & bits >> step
        if pairs and pairs & pairs >> 2 * step:
            return True
    return False


def completing(bits: int, taken: int) -> int:
    """Return the empty squares that would complete a four of ``bits``.

    >>> completing(0b0111, 0b0111) == 0b1000
    True
    """
    found = (bits << 1) & (bits << 2) & (bits << 3)
    for step in _ACROSS:
        up, down = bits << step, bits >> step
        pair = up & (bits << 2 * step)
        found |= pair & ((bits << 3 * step) | down)
        pair = down & (bits >> 2 * step)
        found |= pair & ((bits >> 3 * step) | up)
    return found & (BOARD ^ taken)


def landings(taken: int) -> int:
    """Return the lowest empty square of every column that has one."""
    return (taken + BOTTOM) & BOARD


@lru_cache(maxsize=1 << 16)
def look_ahead(own: int, foe: int, depth: int) -> tuple[tuple[int, ...], bool]:
    """Return the columns that look best to the side to move, and whether they win by force.

    The middle column comes first. The search is ``depth`` moves deep; squares that complete a four
    add two more moves.

    >>> look_ahead(0b0111, 0b0111 << 7, 1), look_ahead(0, 0b0111, 1)
    (((0,), True), ((0,), False))
    """
    taken, best, found = own | foe, -_WIN, [0]
    ready = landings(taken)
    won = completing(own, taken) & ready
    for column in _ORDER:
        bit = (won or ready) & COLUMN[column]
        if not bit:
            continue
        value = _WIN if won else -_value(foe, own | bit, depth - 1, -_WIN, 1 - best)
        if value > best:
            best, found = value, []
        if value == best:
            found.append(column)
    return tuple(found), best > _DECIDED


def _value(own: int, foe: int, depth: int, low: int, high: int) -> int:
    """Return the value of the position for the side to move: positive is good.

    Alpha-beta search: exact between ``low`` and ``high``, else a bound. Forced moves cost no depth.
    """
    moves, forced, best = _options(own, foe)
    depth += forced
    if not moves or depth <= 0:
        return best
    best = -_WIN
    for column in _ORDER:
        bit = moves & COLUMN[column]
        if bit:
            value = -_value(foe, own | bit, depth - 1, -high, -low)
            if value > best:
                best = value
                if best >= high:
                    break
                low = max(low, best)
    return best


def _options(own: int, foe: int) -> tuple[int, bool, int]:
    """Return the moves that do not lose at once, whether a move is forced, and a heuristic value.

    In a position that is won or lost by force there are no moves, and the value is exact: a sooner
    win is worth more.
    """
    taken = own | foe
    ready = (taken + BOTTOM) & BOARD
    mine = completing(own, taken)
    if ready & mine:
        return 0, False, _WIN - taken.bit_count()
    theirs = completing(foe, taken)
    if moves := ready & theirs:
        if moves & (moves - 1) or moves << 1 & theirs:  # two to block, or one on top of the other
            return 0, False, taken.bit_count() + 1 - _WIN
        return moves, True, 0
    if moves := ready & ~(theirs >> 1):  # a disc below such a square lets the opponent take it
        return moves, False, _judge(own, foe, mine, theirs)
    return 0, False, taken.bit_count() + 1 - _WIN if ready else 0


def _judge(own: int, foe: int, mine: int, theirs: int) -> int:
    """Return a heuristic value from open threes, their rows, and discs in the middle."""
    first = own.bit_count() == foe.bit_count()
    good, bad = (mine & _ODD, theirs & _EVEN) if first else (mine & _EVEN, theirs & _ODD)
    threes = 8 * (mine.bit_count() - theirs.bit_count())
    rows = 12 * (good.bit_count() - bad.bit_count())
    middle = 2 * ((own & _MIDDLE).bit_count() - (foe & _MIDDLE).bit_count())
    return threes + rows + middle + (own & _INNER).bit_count() - (foe & _INNER).bit_count()


@cache
def _open_columns(top: int) -> tuple[int, ...]:
    return tuple([place for place, column in enumerate(COLUMN) if not top & column])


OPPONENT_DEPTH, ORACLE_DEPTH = 1, 3
_TOP = BOTTOM << ROWS - 1
SQUARES = {  # a square and the space or newline after it are two characters
    1 << HEIGHT * (at % COLUMNS) + ROWS - 1 - at // COLUMNS: 2 * at for at in range(ROWS * COLUMNS)
}
# The oracle's win rate in 2000 games against opponents of these strengths, when it moved first and
# when the opponent did. A rate of 1 is written as just below 1. A test measures these again.
_STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
_CHANCES = {
    True: (0.9995, 0.9995, 0.995, 0.981, 0.9995),
    False: (0.9995, 0.999, 0.993, 0.949, 0.8875),
}


class ConnectFourEnv(TwoPlayerEnv):
    """Win at connect four against an opponent of adjustable strength.

    Description:
        Two players take turns to drop discs into seven columns of six squares; four discs in a
        line, in any direction, win. With probability ``opponent`` the opponent plays a good move:
        it completes a four, blocks one, makes none possible for the player, and otherwise takes
        the best move of a one-move search. Else it plays at random. X moves first.

    Actions:
        The number of a column with room, 1 to 7, such as ``4``, ``[4]`` or ``drop in column 4``.
        Anything else, and a full column, is unusable.

    Observations:
        The last moves of both players, the board (X, O, a dot for an empty square, the column
        numbers below), the player's mark and the turns left.

    Rewards:
        1 for a win, otherwise 0, also for a draw. There is no shaping.

    Episode end:
        Terminates when the player (won) or the opponent (lost) has four in a line, when the board
        is full (drawn) and after ``max_turns`` turns (lost).

    Args:
        opponent: Probability, in [0, 1], that the opponent plays a good move.
        begins: Who moves first: ``player``, ``opponent`` or ``random``.
        max_turns: Turns allowed, at least 21: so many fill the board.
        **common: See ``TextEnv``.
    """

    place, places, line = "column", COLUMNS, "four in a line"
    squares, full, blank = SQUARES, BOARD, ". . . . . . .\n" * ROWS + "1 2 3 4 5 6 7"
    full_answer = "Column {} is full."

    max_turns: int = setting(30)
    is_won = staticmethod(has_four)

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
        return _open_columns((self._own | self._foe) & _TOP)

    def good_moves(self) -> Sequence[int]:
        return look_ahead(self._foe, self._own, OPPONENT_DEPTH)[0]

    def oracle_move(self) -> str:
        return best_move(self._own, self._foe)

    def oracle_value(self) -> float:
        """Return the measured win rate from the start; 1 once the search sees a forced win."""
        if look_ahead(self._own, self._foe, ORACLE_DEPTH)[1]:
            return 1.0
        return float(np.interp(self.opponent, _STRENGTHS, _CHANCES[self._first]))

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Search from the board that the observation shows."""
        own, foe, *_ = read_position(observations, SQUARES)
        return best_move(own, foe)


def best_move(own: int, foe: int) -> str:
    """Return the move of the strongest player in this module, as a column number.

    >>> best_move(0, 0)
    '4'
    """
    return str(1 + look_ahead(own, foe, ORACLE_DEPTH)[0][0])
