"""Sokoban levels by reverse play: begin solved and pull the boxes away.

Pushes undo pulls, so every level has a solution whose length is known without a search. The
distances of the boxes to the goals give a lower bound on the pushes that a level needs.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from llm_gym.envs.shared.bit_grid import each, reach, shift, steps, walk, waves

FAR = 99
"""More pushes than any box needs; marks cells where a box is stuck forever."""
NODES = 20_000
"""Limit on the states that a plan visits; it bounds the time, and the plan may fail."""
_HASTE = 2  # weight of the heuristic in A*: much faster, with slightly longer plans


class Room(NamedTuple):
    """The part of a level that never moves."""

    size: int
    floor: int
    goals: int


@lru_cache(maxsize=64)
def push_distances(room: Room) -> list[int]:
    """Return per cell the pushes from it to the nearest goal, ignoring other boxes.

    So the sum over the boxes is a lower bound for the level; ``FAR`` means stuck forever.
    """
    size, floor, wave = room
    away = [FAR] * (size * size)
    # Pull boxes from the goals: to pull a box to a cell, the player needs the next cell free.
    up, right = floor & floor << size, floor & floor >> 1
    down, left = floor & floor >> size, floor & floor << 1
    pushes, rest = 0, floor
    while wave:
        rest &= ~wave
        ahead = wave >> size & up | wave << 1 & right | wave << size & down | wave >> 1 & left
        for place in each(wave):
            away[place] = pushes
        wave, pushes = ahead & rest, pushes + 1
    return away


def pushes_to_go(room: Room, boxes: int) -> int:
    """Return a lower bound on the pushes that the level needs."""
    away = push_distances(room)
    return sum([away[box] for box in each(boxes)])


@lru_cache(maxsize=64)  # a player asks again at every turn
def plan(room: Room, boxes: int, player: int) -> list[int] | None:
    """Return the directions of a short solution, or None if none was found among ``NODES``.

    Weighted A* over pushes, with shortest walks between them. The heuristic has weight 2, so a
    plan is at most twice as long as the best one.
    """
    size, floor = room.size, room.floor
    away = push_distances(room)
    safe = sum([1 << place for place in each(floor) if away[place] < FAR])
    ahead = pushes_to_go(room, boxes)
    parents: list[tuple[int, int, int]] = []  # per visited node: parent, place, direction
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
                        queue, (after + _HASTE * togo, after, togo, *state, len(parents) - 1, way)
                    )
    return None


def _retrace(room: Room, boxes: int, parents: list[tuple[int, int, int]]) -> list[int]:
    """Return the moves that led to the last of ``parents``, walks included."""
    size, trail = room.size, []
    node = parents[-1]
    while node[0] >= 0:
        before = parents[node[0]]
        step = steps(size)[node[2]]
        boxes ^= 1 << node[1] + step | 1 << node[1]  # undo the push
        trail.append([*walk(before[1], node[1] - step, room.floor & ~boxes, size), node[2]])
        node = before
    return [way for part in reversed(trail) for way in part]


_DRAWS = 1000  # far more than are needed below the limit of ``most_pushes``


Pull = tuple[int, int, int]
"""One pull: the boxes before it, the box pulled and the direction."""


class Level(NamedTuple):
    """A room, where the boxes (a set) and the player begin, and the pulls that led there."""

    room: Room
    boxes: int
    player: int
    pulls: tuple[Pull, ...]


def most_pushes(size: int, boxes: int) -> int:
    """Return the largest ``min_pushes`` for which levels are found quickly.

    >>> most_pushes(6, 1), most_pushes(6, 2), most_pushes(8, 4)
    (2, 4, 8)
    """
    return (size - 4) * min(boxes, 2)


def draw_level(
    size: int, boxes: int, min_pushes: int, max_moves: int, rng: np.random.Generator
) -> Level:
    """Return a level that takes ``min_pushes`` pushes or more and at most ``max_moves`` moves."""
    draw = draws(rng)
    hardest, level = 0, None
    for _ in range(_DRAWS):
        room = draw_room(size, boxes, draw)
        pushes, after, pulls = pull_away(room, min_pushes, draw)
        if pushes > hardest:
            found = Level(room, after, _player_after(pulls[-1], room, after, draw), tuple(pulls))
            if len(solution(found)) <= max_moves:
                hardest, level = pushes, found
                if pushes >= min_pushes:
                    break
    assert level is not None, "a level of one pull fits into any number of turns"
    return level


def draws(rng: np.random.Generator) -> Callable[[], float]:
    """Return a function that draws from [0, 1); it draws in bulk, which is ten times cheaper."""

    def stream() -> Iterator[float]:
        while True:
            yield from rng.random(128).tolist()

    return stream().__next__


def pick(cells: int, size: int, draw: Callable[[], float]) -> int:
    """Return a random cell of ``cells``, by drawing cells of the grid until one is in the set."""
    places = size * size
    while not cells >> (place := int(draw() * places)) & 1:
        pass
    return place


@lru_cache
def inside(size: int) -> int:
    """Return every cell but the outer walls."""
    return sum([(1 << size - 2) - 1 << size * row + 1 for row in range(1, size - 1)])


def draw_room(size: int, boxes: int, draw: Callable[[], float]) -> Room:
    """Return a room with some walls inside, its floor in one piece, and goals."""
    floor = inside(size)
    for _ in range(int((0.1 + 0.3 * draw()) * (size - 2) ** 2)):
        less = floor & ~(1 << int(draw() * size * size))
        if less != floor and reach(less.bit_length() - 1, less, size) == less:
            floor = less
    goals = 0
    for _ in range(boxes):
        goals |= 1 << pick(floor & ~goals, size, draw)
    return Room(size, floor, goals)


def pull_away(room: Room, enough: int, draw: Callable[[], float]) -> tuple[int, int, list[Pull]]:
    """Pull boxes off the goals at random, never back to an earlier state.

    Stops as soon as solving needs ``enough`` pushes, or if there is no progress. Returns the lower
    bound on the pushes, the boxes, and the pulls that led there.
    """
    size, floor, boxes = room
    away, ways, free = push_distances(room), steps(size), floor & ~boxes
    around = reach(pick(free, size, draw), free, size)
    pulls: list[Pull] = []
    pushes, last, seen = 0, -1, {boxes}
    for _ in range(4 * enough):
        options = _pullable(boxes, around, free, size)
        if not options:
            break
        # Take the best of three random pulls, so that boxes drift away from the goals.
        best, after, count = -FAR, 0, len(options)
        for _ in range(min(count, 3)):
            box, way = options[int(draw() * count)]
            to = box + ways[way]
            farther, moved = away[to] - away[box], boxes ^ (1 << box | 1 << to)
            if (farther > best or (farther == best and box == last)) and moved not in seen:
                best, after, pull, stand = farther, moved, (boxes, box, way), to + ways[way]
        if not after:
            continue
        pulls.append(pull)
        pushes += best
        if pushes >= enough:
            return pushes, after, pulls
        seen.add(after)
        boxes, free, last = after, floor & ~after, stand - ways[pull[2]]
        around = reach(stand, free, size)
    return pushes, boxes, pulls


def _pullable(boxes: int, around: int, free: int, size: int) -> list[tuple[int, int]]:
    """Return the boxes that a player somewhere in ``around`` can pull, each with the way."""
    found = []
    # The player stands where the box will be and has room to step back.
    by_way = (
        boxes & around << size & free << 2 * size,
        boxes & around >> 1 & free >> 2,
        boxes & around >> size & free >> 2 * size,
        boxes & around << 1 & free << 2,
    )
    for way, movable in enumerate(by_way):
        while movable:
            box = movable.bit_length() - 1
            found.append((box, way))
            movable ^= 1 << box
    return found


def _player_after(last: Pull, room: Room, boxes: int, draw: Callable[[], float]) -> int:
    """Return a place for the player from which the last pull can be undone."""
    _, box, way = last
    stand = box + 2 * steps(room.size)[way]
    return pick(reach(stand, room.floor & ~boxes, room.size), room.size, draw)


@lru_cache(maxsize=16)
def solution(level: Level) -> list[int]:
    """Return the directions that undo the pulls of ``level``."""
    (size, floor, _), boxes, player, pulls = level
    moves = []
    for before, box, way in reversed(pulls):
        step = steps(size)[way]
        moves += [*walk(player, box + 2 * step, floor & ~boxes, size), (way + 2) % 4]
        boxes, player = before, box + step
    return moves
