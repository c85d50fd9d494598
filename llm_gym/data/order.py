"""The order in which rows are visited: shuffled, without a list of them.

``shuffled`` is a permutation that is computed, not stored: a small Feistel network, repeated until
it lands inside the range. So a row is found in constant time and no memory in a data set of any
size, and the order is the same in every process and with every version of NumPy.
"""

from __future__ import annotations

from llm_gym.core.splits import stable_hash

_ROUNDS = 4


def shuffled(position: int, size: int, key: int = 0) -> int:
    """Return the row at ``position`` of an endless walk over ``size`` rows.

    Positions 0 to ``size`` - 1 visit every row once, the next ``size`` positions visit every row
    once more in another order, and so on for ever. ``key`` chooses the orders.

    >>> [shuffled(position, 5) for position in range(10)]
    [0, 2, 1, 3, 4, 4, 2, 1, 3, 0]
    """
    turn, row = divmod(position, size)
    half = max(2, ((size - 1).bit_length() + 1) // 2)
    while True:
        row = _mix(row, half, f"{key} {turn}")
        if row < size:
            return row


def _mix(number: int, half: int, key: str) -> int:
    """Return another number of ``2 * half`` bits; different numbers stay different."""
    mask = (1 << half) - 1
    left, right = number >> half, number & mask
    for turn in range(_ROUNDS):
        noise = stable_hash(f"{key} {turn} {right}", 64)
        left, right = right, left ^ (noise & mask)
    return left << half | right
