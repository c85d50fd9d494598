"""How far boxes are from goals, and plans that bring them there.

A room is a bit board of ``bit_grid``; a plan is a list of directions.
"""

from __future__ import annotations

from functools import lru_cache
from heapq import heappop, heappush
from typing import NamedTuple

from llm_gym.envs.shared.bit_grid import each, shift, steps, walk, waves

FAR = 99
"""More pushes than any box needs; where a box would be stuck for good."""
NODES = 20_000
"""States that a plan may look at: a bound on time, not a promise to find one."""
_HASTE = 2  # weight of the pushes to go: plans are found far sooner and get a little longer


class Room(NamedTuple):
    """The part of a level that never moves."""

    size: int
    floor: int
    goals: int


@lru_cache(maxsize=64)
def push_distances(room: Room) -> list[int]:
    """Return per cell the pushes that take a box to the nearest goal; no other box is counted.

    So the sum over the boxes is never more than a level needs, and ``FAR`` means stuck for good.
    """
    size, floor, wave = room
    away = [FAR] * (size * size)
    # Pull boxes from the goals: whoever pulls one to a cell needs the next cell to step back to.
    up, right = floor & floor << size, floor & floor >> 1
    down, left = floor & floor >> size, floor & floor << 1
    pushes, rest = 0, floor
    while wave:
        rest &= ~wave
        ahead = wave >> size & up | wave << 1 & right | wave << size & down | wave >> 1 & left
        while wave:
            low = wave & -wave
            away[low.bit_length() - 1] = pushes
            wave ^= low
        wave, pushes = ahead & rest, pushes + 1
    return away


def pushes_to_go(room: Room, boxes: int) -> int:
    """Return a number of pushes that solving the level takes at least."""
    away = push_distances(room)
    return sum([away[box] for box in each(boxes)])


def plan(room: Room, boxes: int, player: int) -> list[int] | None:
    """Return the directions of a short solution, or None if none was found among ``NODES``.

    A* over pushes, the walks between them being shortest; it weighs the pushes to go double, so
    a plan is at most twice as long as the best one.
    """
    size, floor = room.size, room.floor
    away = push_distances(room)
    safe = sum([1 << place for place in each(floor) if away[place] < FAR])
    ahead = pushes_to_go(room, boxes)
    parents: list[tuple[int, int, int]] = []  # of each node looked at: parent, place, direction
    queue = [(_HASTE * ahead, 0, ahead, boxes, player, -1, 0)]
    best: dict[tuple[int, int], int] = {}
    while queue and len(parents) < NODES:
        _, moves, ahead, boxes, player, parent, last = heappop(queue)
        if best.get((boxes, player), FAR * FAR) < moves:
            continue
        parents.append((parent, player, last))
        if not ahead:
            return _retrace(room, boxes, parents)
        layers = waves(player, floor & ~boxes, size)
        seen, room_to = sum(layers), safe & ~boxes
        for way, step in enumerate(steps(size)):
            for box in each(boxes & shift(seen, step) & shift(room_to, -step)):
                stand = box - step
                after = moves + 1
                while not layers[after - moves - 1] >> stand & 1:
                    after += 1
                state = (boxes ^ 1 << box | 1 << box + step, box)
                if after < best.get(state, FAR * FAR):
                    best[state] = after
                    togo = ahead - away[box] + away[box + step]
                    heappush(
                        queue,
                        (after + _HASTE * togo, after, togo, *state, len(parents) - 1, way),
                    )
    return None


def _retrace(room: Room, boxes: int, parents: list[tuple[int, int, int]]) -> list[int]:
    """Return the moves that led to the last of ``parents``, walks included."""
    size, trail = room.size, []
    node = parents[-1]
    while node[0] >= 0:
        before = parents[node[0]]
        step = steps(size)[node[2]]
        boxes ^= 1 << node[1] + step | 1 << node[1]  # take the push back
        trail.append([*walk(before[1], node[1] - step, room.floor & ~boxes, size), node[2]])
        node = before
    return [way for part in reversed(trail) for way in part]
