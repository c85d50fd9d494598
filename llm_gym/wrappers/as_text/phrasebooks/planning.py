"""Optimal players for other packages: value iteration, and search on MiniGrid's grids."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_DISCOUNT, _SWEEPS, _EXACT = 0.999, 20_000, 1e-6


def best_actions(transitions: Mapping[int, Mapping[int, Sequence[Any]]]) -> list[int]:
    """Return the best action of each state of a transition table, as Gymnasium's toy texts have it.

    >>> best_actions({0: {0: [(1.0, 0, 0.0, False)], 1: [(1.0, 0, 1.0, True)]}})
    [1]
    """
    rows = [
        (state, action, *outcome)
        for state, actions in transitions.items()
        for action, outcomes in actions.items()
        for outcome in outcomes
    ]
    at_N, action_N, chance_N, next_N, reward_N, over_N = map(np.array, zip(*rows, strict=True))
    unknown_SA = np.full((max(at_N.max(), next_N.max()) + 1, action_N.max() + 1), -np.inf)
    unknown_SA[at_N, action_N] = 0.0
    value_SA = unknown_SA
    for _ in range(_SWEEPS):
        ahead_N = np.where(over_N, 0.0, value_SA.max(1)[next_N])
        last_SA, value_SA = value_SA, unknown_SA.copy()
        np.add.at(value_SA, (at_N, action_N), chance_N * (reward_N + _DISCOUNT * ahead_N))
        if np.allclose(value_SA, last_SA, rtol=0.0, atol=_EXACT):
            break
    return [int(action) for action in value_SA.argmax(1)]


LEFT, RIGHT, FORWARD, PICK_UP, TOGGLE = 0, 1, 2, 3, 5
_WAYS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # east, south, west, north


class _Place(NamedTuple):
    """Where a search on a grid is: what was changed on the way, and what is carried."""

    at: tuple[int, int]
    way: int
    key: str | None
    changed: frozenset[tuple[int, int]] = frozenset()
    """Squares of opened doors and of keys that were taken."""


def way_to_goal(game: Any) -> list[int]:
    """Return the shortest actions to the goal of a MiniGrid, past keys and doors; none if none.

    It foresees nothing that moves, and puts nothing down.
    """
    held = game.carrying
    key = None if held is None else f"{held.color} {held.type}"
    x, y = map(int, game.agent_pos)
    start = _Place((x, y), int(game.agent_dir), key)
    before: dict[_Place, tuple[_Place, int] | None] = {start: None}
    queue = deque([start])
    while queue:
        place = queue.popleft()
        if _kind(game, place.at) == "goal":
            return _actions(before, place)
        for action, there in _steps(game, place):
            if there not in before:
                before[there] = place, action
                queue.append(there)
    return []


def _steps(game: Any, place: _Place) -> Iterator[tuple[int, _Place]]:
    """Yield the actions that change something, and what they lead to."""
    yield LEFT, place._replace(way=(place.way - 1) % 4)
    yield RIGHT, place._replace(way=(place.way + 1) % 4)
    ahead = place.at[0] + _WAYS[place.way][0], place.at[1] + _WAYS[place.way][1]
    if not (0 <= ahead[0] < game.grid.width and 0 <= ahead[1] < game.grid.height):
        return  # the place is a door in the outer wall
    thing, kind = game.grid.get(*ahead), _kind(game, ahead)
    changed = place._replace(changed=place.changed | {ahead})
    if kind in ("empty", "goal", "floor") or ahead in place.changed:
        yield FORWARD, place._replace(at=ahead)
    elif kind == "key" and place.key is None:
        yield PICK_UP, changed._replace(key=f"{thing.color} key")
    elif kind == "door":
        if thing.is_open:
            yield FORWARD, place._replace(at=ahead)
        elif not thing.is_locked or place.key == f"{thing.color} key":
            yield TOGGLE, changed


def _kind(game: Any, at: tuple[int, int]) -> str:
    thing = game.grid.get(*at)
    return "empty" if thing is None else str(thing.type)


def _actions(before: Mapping[_Place, tuple[_Place, int] | None], place: _Place) -> list[int]:
    actions: list[int] = []
    while (step := before[place]) is not None:
        place, action = step
        actions.append(action)
    return actions[::-1]
