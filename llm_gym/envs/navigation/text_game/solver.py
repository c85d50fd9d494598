"""A good player that reads only the observations: it keeps a map and explores.

It remembers items, locked doors and guards. It fetches what opens a blocked exit that it has seen,
and otherwise walks to the nearest unseen room. Its score shows what a careful reader can reach
within the turn limit.
"""

import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache

from llm_gym.envs.navigation.text_game.view import View, parse
from llm_gym.envs.navigation.text_game.world import OPPOSITE

_BRING = re.compile(r"bring the (\w+) to the (\w+)")
_PUT = re.compile(r"put the (\w+) in the (\w+) in the (\w+)")
_TASK = re.compile(r"(\w+) ([\w ]+) in (\w+)")
# Every call reads the whole transcript again; the cache makes known texts free.
_parsed = lru_cache(maxsize=1024)(parse)


class Notes:
    """The facts that the transcript has shown so far."""

    def __init__(self) -> None:
        self.exits: dict[str, dict[str, str]] = {}
        """Room → direction → room, empty string while unknown."""
        self.locked: dict[tuple[str, str], str] = {}
        """(Room, direction) → locked door."""
        self.seen: dict[str, str] = {}
        """Item → the room where it was seen."""
        self.closed: dict[str, str] = {}
        """Closed container → its room."""
        self.guards: dict[str, tuple[str, str]] = {}
        """Room → (monster, weapon it fears)."""

    def read(self, view: View, came: tuple[str, str] | None) -> None:
        """Add one observation; ``came`` is (room, direction) of the step that led to it."""
        ways = self.exits.setdefault(view.room, {})
        for exit in view.exits:
            ways[exit.way] = exit.to or ways.get(exit.way, "")
            self.locked.pop((view.room, exit.way), None)
            if exit.door:
                self.locked[view.room, exit.way] = exit.door
        if came and came[0] != view.room:
            self.exits[came[0]][came[1]] = view.room
            ways[OPPOSITE[came[1]]] = came[0]
        self.seen = {item: room for item, room in self.seen.items() if room != view.room}
        for item in [*view.items, *(held for box in view.boxes.values() for held in box or ())]:
            self.seen[item] = view.room
        for item in view.carried:
            self.seen.pop(item, None)
        for box, held in view.boxes.items():
            self.closed.pop(box, None)
            if held is None:
                self.closed[box] = view.room
        self.guards.pop(view.room, None)
        if view.monster:
            self.guards[view.room] = (view.monster, view.bane)


def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
    """Return the next move."""
    return _decide(*take_notes(observations, moves))


def take_notes(observations: Sequence[str], moves: Sequence[str]) -> tuple[Notes, View]:
    """Return notes on the whole transcript, and the current view."""
    notes, view = Notes(), View()
    for at, text in enumerate(observations):
        before, seen = view.room, _parsed(text)
        if seen is None:
            continue
        view = seen
        way = moves[at - 1].removeprefix("go ") if at and moves[at - 1].startswith("go ") else ""
        notes.read(view, (before, way) if way and before else None)
    return notes, view


def _decide(notes: Notes, view: View) -> str:
    if view.task and (task := _TASK.fullmatch(view.task)):
        if task[3] == view.room:
            return _finish(task[1], task[2], view)
        way = _way(notes, view.room, lambda to: to == task[3])
        return f"go {way}" if way else explore(notes, view)
    item, target, room = _goal(view.quest)
    if item in view.carried and room in notes.exits:
        return there(notes, view, room) or (
            f"drop {item}" if target == room else f"put {item} in {target}"
        )
    return _useful(notes, view, item) or explore(notes, view)


def _goal(quest: str) -> tuple[str, str, str]:
    if found := _PUT.search(quest):
        return found[1], found[2], found[3]
    item, room = _BRING.findall(quest)[0]
    return item, room, room


def _finish(verb: str, noun: str, view: View) -> str:
    """Complete a task that the observation gives without its second noun."""
    if verb == "put":
        box = next((box for box in view.boxes if f"in the {box}" in view.quest), "")
        return f"put {noun} in {box or next(iter(view.boxes), '')}"
    return f"{verb} {noun}"


def _useful(notes: Notes, view: View, goal: str) -> str | None:
    """Return a step towards something that is known to help, if there is one."""
    for (room, _), door in notes.locked.items():
        if door.replace("door", "key") in view.carried:
            return there(notes, view, room) or f"unlock {door}"
    for room, (monster, bane) in notes.guards.items():
        if bane in view.carried:
            return there(notes, view, room) or f"attack {monster}"
    helps = {goal, *(bane for _, bane in notes.guards.values())}
    helps |= {door.replace("door", "key") for door in notes.locked.values()}
    for item, room in sorted(notes.seen.items()):
        if room not in notes.guards and (item in helps or item.endswith(" key")):
            return there(notes, view, room) or f"take {item}"
    for box, room in sorted(notes.closed.items()):
        return there(notes, view, room) or f"open {box}"
    return None


def there(notes: Notes, view: View, target: str) -> str | None:
    """Return the step towards a known room, or None when already in it."""
    if view.room == target:
        return None
    way = _way(notes, view.room, lambda to: to == target)
    return f"go {way}" if way else explore(notes, view)


def explore(notes: Notes, view: View) -> str:
    """Return the step towards the nearest place that has not been seen."""
    way = _way(notes, view.room, lambda to: to not in notes.exits)
    return f"go {way}" if way else "look"


def _way(notes: Notes, start: str, wanted: Callable[[str], bool]) -> str | None:
    """Return the first direction of a shortest open path to a room that is ``wanted``."""
    queue, seen = deque([(start, "")]), {start}
    while queue:
        room, first = queue.popleft()
        for way, to in notes.exits.get(room, {}).items():
            if (room, way) in notes.locked:
                continue
            if wanted(to):
                return first or way
            if to in notes.exits and to not in seen:
                seen.add(to)
                queue.append((to, first or way))
    return None
