"""Looking ahead in connect four.

A side's discs are one integer: seven bits per column, lowest square first, the seventh always
empty so that a shift never carries a line from one column into the next. One pass of shifts
finds every square that would complete a four, for all columns at once; with it a node knows what
wins, what must be blocked and what must not be played below, before it looks at a single move.
"""

from __future__ import annotations

from functools import lru_cache

ROWS, COLUMNS = 6, 7
HEIGHT = ROWS + 1
_FALLING, _RISING = HEIGHT - 1, HEIGHT + 1  # from a square to the next on a diagonal
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
    # Without a loop this takes half the time, and it is asked more than anything else.
    up, right = bits & bits >> 1, bits & bits >> HEIGHT
    falling, rising = bits & bits >> _FALLING, bits & bits >> _RISING
    return bool(
        up & up >> 2
        or right & right >> 2 * HEIGHT
        or falling & falling >> 2 * _FALLING
        or rising & rising >> 2 * _RISING
    )


def completing(bits: int, taken: int) -> int:
    """Return the empty squares that would complete a four of ``bits``.

    >>> completing(0b0111, 0b0111) == 0b1000
    True
    """
    found = (bits << 1) & (bits << 2) & (bits << 3)
    for step in (HEIGHT - 1, HEIGHT, HEIGHT + 1):
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

    The middle comes first. Looks ``depth`` moves ahead and, with the squares that complete a four,
    two more.

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
    """Return what the position is worth to the side to move: positive is good.

    Exact between ``low`` and ``high``, a bound outside. A move that is forced costs no depth.
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
    """Return the moves that do not lose at once, whether the only one is forced, and a guess.

    Where the game is as good as over there are no moves, and the value is no guess: a win is worth
    more the sooner it comes.
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
    if moves := ready & ~(theirs >> 1):  # below such a square one hands it over
        return moves, False, _judge(own, foe, mine, theirs)
    return 0, False, taken.bit_count() + 1 - _WIN if ready else 0


def _judge(own: int, foe: int, mine: int, theirs: int) -> int:
    """Return a guess: open threes count, more in rows that fall to their side; then the middle."""
    first = own.bit_count() == foe.bit_count()
    good, bad = (mine & _ODD, theirs & _EVEN) if first else (mine & _EVEN, theirs & _ODD)
    threes = 8 * (mine.bit_count() - theirs.bit_count())
    rows = 12 * (good.bit_count() - bad.bit_count())
    middle = 2 * ((own & _MIDDLE).bit_count() - (foe & _MIDDLE).bit_count())
    return threes + rows + middle + (own & _INNER).bit_count() - (foe & _INNER).bit_count()
