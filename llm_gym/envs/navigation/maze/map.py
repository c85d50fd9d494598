"""Mazes: a map drawn at random, and the way through what a player has seen of one.

A map is a bit board of ``bit_grid`` with an odd number of cells a side: rooms are the cells whose
row and column are both odd, and between two rooms there is a wall or a door.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from llm_gym.envs.shared.bit_grid import steps, waves

Cell = tuple[int, int]
_MOVES: tuple[Cell, ...] = ((-1, 0), (0, 1), (1, 0), (0, -1))


@lru_cache(maxsize=32)
def doors(size: int) -> dict[int, list[tuple[int, int]]]:
    """Return, for each room of a map with ``size`` cells a side, its doors and what is behind.

    >>> doors(5)
    {6: [(7, 8), (11, 16)], 8: [(13, 18), (7, 6)], 16: [(11, 6), (17, 18)], 18: [(13, 8), (17, 16)]}
    """
    rooms = [row * size + col for row in range(1, size, 2) for col in range(1, size, 2)]
    return {
        room: [
            (room + step, room + 2 * step)
            for step in steps(size)
            if room + 2 * step in rooms and abs((room + step) % size - room % size) <= 1
        ]
        for room in rooms
    }


def carve(size: int, loops: float, rng: np.random.Generator) -> int:
    """Return the floor of a maze: a random tree of rooms, and the share ``loops`` of the rest."""
    around = doors(size)
    draws = rng.random(len(around)).tolist()
    at = list(around)[int(draws.pop() * len(around))]
    left, floor, trail = set(around) - {at}, 1 << at, [at]
    while left:
        ahead = [way for way in around[at] if way[1] in left]
        if not ahead:
            at = trail.pop()
            continue
        trail.append(at)
        door, at = ahead[int(draws.pop() * len(ahead))]
        left.remove(at)
        floor |= 1 << door | 1 << at
    if loops:
        closed = sorted(
            {door for ways in around.values() for door, _ in ways if not floor >> door & 1}
        )
        for index in rng.permutation(len(closed))[: round(loops * len(closed))].tolist():
            floor |= 1 << closed[index]
    return floor


@lru_cache(maxsize=16)
def distances(floor: int, to: int, size: int) -> dict[int, int]:
    """Return the fewest moves over ``floor`` to the cell ``to``, from every cell of it."""
    away = {}
    for moves, wave in enumerate(waves(to, floor, size)):
        while wave:
            low = wave & -wave
            away[low.bit_length() - 1] = moves
            wave ^= low
    return away


def next_step(known: Mapping[Cell, str], at: Cell) -> int:
    """Return the direction towards the exit, or towards the nearest cell not seen yet.

    ``known`` holds a letter for every cell seen: # is a wall, E the exit. The exit comes first,
    wherever a way to it is known; 0 where there is nothing left to find.

    >>> next_step({(0, 0): "P", (0, 1): ".", (0, 2): "E", (1, 0): "."}, (0, 0))
    1
    """
    first: dict[Cell, int] = {at: 0}
    queue, unseen = [at], None
    for cell in queue:  # grows while it is read: breadth first
        if known.get(cell) == "E":
            return first[cell]
        if cell not in known:
            unseen = cell if unseen is None else unseen
            continue
        for way, (down, right) in enumerate(_MOVES):
            to = (cell[0] + down, cell[1] + right)
            if to not in first and known.get(to) != "#":
                first[to] = way if cell == at else first[cell]
                queue.append(to)
    return 0 if unseen is None else first[unseen]
