"""Best play on a frozen lake, from what is on the map.

A lake is one string of cells, row by row, with the goal last: ``.`` is ice, ``H`` a hole, ``G``
the goal. A place is an index into it. Directions run in a circle (up, right, down, left), so
that the neighbours of one in the circle are its two sides.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

DIRECTIONS = ("up", "right", "down", "left")
FAR = 10**6
"""More moves than any lake needs."""


@lru_cache(maxsize=8)
def neighbours(size: int) -> tuple[tuple[int, ...], ...]:
    """Return, per direction, the place that each place leads to; the edge leads back to itself.

    >>> neighbours(2)
    ((0, 1, 0, 1), (1, 1, 3, 3), (2, 3, 2, 3), (0, 0, 2, 2))
    """
    places = range(size * size)
    return (
        tuple(at - size if at >= size else at for at in places),
        tuple(at + 1 if at % size < size - 1 else at for at in places),
        tuple(at + size if at < size * (size - 1) else at for at in places),
        tuple(at - 1 if at % size else at for at in places),
    )


@lru_cache(maxsize=16)
def distances(lake: str) -> dict[int, int]:
    """Return the fewest moves over ice to the goal from each place that it can be reached from.

    >>> distances("..HG")
    {3: 0, 1: 1, 0: 2}
    """
    around = neighbours(math.isqrt(len(lake)))
    away, queue = {len(lake) - 1: 0}, [len(lake) - 1]
    for at in queue:  # grows while it is read: breadth first
        for way in around:
            if (to := way[at]) not in away and lake[to] == ".":
                away[to] = away[at] + 1
                queue.append(to)
    return away


@lru_cache(maxsize=16)
def win_chances(lake: str, slip: float, turns: int) -> npt.NDArray[np.float64]:
    """Return the chance that best play wins, by turns left (0 to ``turns``) and place.

    Exact: one step of dynamic programming per turn left. The cache keeps the table out of the
    environment, so that snapshots and pickles stay small.
    """
    ahead = np.array(neighbours(math.isqrt(len(lake))))
    side, other = ahead[[1, 2, 3, 0]], ahead[[3, 0, 1, 2]]
    ice = np.array([cell == "." for cell in lake])
    chances = np.zeros((turns + 1, len(lake)))
    chances[:, -1] = 1.0
    for left in range(1, turns + 1):
        after = chances[left - 1]
        ways = (1 - slip) * after[ahead] + slip / 2 * (after[side] + after[other])
        np.copyto(chances[left], ways.max(axis=0), where=ice)
    return chances


def best_move(lake: str, at: int, slip: float, left: int, turns: int) -> str:
    """Return the move of best play with ``left`` of ``turns`` turns left; the shortest of equals.

    >>> best_move("...G", 0, 0.0, 2, 2), best_move(".H.G", 0, 0.0, 2, 2)
    ('right', 'down')
    """
    chances = win_chances(lake, slip, turns)[left - 1]
    away = distances(lake)
    ends = [way[at] for way in neighbours(math.isqrt(len(lake)))]

    def merit(way: int) -> tuple[float, int]:
        sides = chances[ends[way - 1]] + chances[ends[(way + 1) % 4]]
        chance = (1 - slip) * chances[ends[way]] + slip / 2 * sides
        return round(float(chance), 9), -away.get(ends[way], FAR)

    return DIRECTIONS[max(range(4), key=merit)]
