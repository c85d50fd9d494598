"""A small world of rooms and items, and the effect of each command.

The state is a few dictionaries. There are no dead ends: doors do not lock again, items do not
break, and no item can be left in a room that a monster guards. So an instance that can be solved
at the start can be solved from every state that a player can reach.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, Self

DIRECTIONS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}
CARRIED = "carried"


class Command(NamedTuple):
    """A command whose nouns are names of things in the world."""

    verb: str
    noun: str = ""
    other: str = ""

    def __str__(self) -> str:
        joint = {"put": " in ", "unlock": " with "}.get(self.verb, " ")
        return f"{self.verb} {self.noun}{joint}{self.other}".strip()


@dataclass(slots=True)
class World:
    """Where everything is."""

    exits: dict[str, dict[str, str]]
    """Room → direction → room on the other side."""
    here: str
    """The room the player is in."""
    place: dict[str, str] = field(default_factory=dict)
    """Item → the room or container it is in, or ``CARRIED``."""
    containers: dict[str, str] = field(default_factory=dict)
    """Container → its room."""
    closed: dict[str, bool] = field(default_factory=dict)
    doors: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Door → the two rooms it joins."""
    keys: dict[str, str] = field(default_factory=dict)
    """Door → the key that opens it."""
    locked: dict[str, bool] = field(default_factory=dict)
    monsters: dict[str, str] = field(default_factory=dict)
    """Living monster → the room it guards."""
    banes: dict[str, str] = field(default_factory=dict)
    """Monster → the weapon that defeats it."""
    came_from: str = ""
    """The direction that leads back, empty before the first step."""
    ways: dict[tuple[str, str], list[tuple[str, str]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """A cache of paths by (start, end): exits never change, and every observation and every
    reward needs several paths."""

    def clone(self) -> Self:
        """Return a copy for play; the parts that never change are shared."""
        return replace(
            self, place=dict(self.place), closed=dict(self.closed), locked=dict(self.locked),
            monsters=dict(self.monsters),
        )  # fmt: skip

    # --- looking -------------------------------------------------------------------------

    def items_in(self, place: str) -> list[str]:
        return self.contents().get(place, [])

    def contents(self) -> dict[str, list[str]]:
        held: dict[str, list[str]] = {}
        for item in sorted(self.place):
            held.setdefault(self.place[item], []).append(item)
        return held

    def containers_here(self) -> list[str]:
        return sorted(name for name, room in self.containers.items() if room == self.here)

    def visible_items(self) -> list[str]:
        """Return the items the player could take if nothing guarded them."""
        places = [self.here, *(c for c in self.containers_here() if not self.closed[c])]
        return [item for place in places for item in self.items_in(place)]

    def locked_door(self, room: str, other: str) -> str:
        """Return the locked door between two rooms, or an empty string."""
        for door, ends in self.doors.items():
            if ends in ((room, other), (other, room)) and self.locked[door]:
                return door
        return ""

    def guard(self, room: str) -> str | None:
        for monster, where in self.monsters.items():
            if where == room:
                return monster
        return None

    def way_to(self, target: str) -> list[tuple[str, str]]:
        """Return a shortest path to ``target`` as (direction, room) pairs; doors may be locked."""
        asked = (self.here, target)
        if asked not in self.ways:
            self.ways[asked] = self._find_way(target)
        return self.ways[asked]

    def _find_way(self, target: str) -> list[tuple[str, str]]:
        back: dict[str, tuple[str, str]] = {self.here: ("", "")}
        queue = deque([self.here])
        while queue and target not in back:
            room = queue.popleft()
            for direction, other in self.exits[room].items():
                if other not in back:
                    back[other] = (direction, room)
                    queue.append(other)
        way: list[tuple[str, str]] = []
        while target != self.here:
            direction, before = back[target]
            way.append((direction, target))
            target = before
        return way[::-1]

    # --- acting --------------------------------------------------------------------------

    def usable(self) -> list[Command]:
        """Return every command that changes something here and now.

        ``look`` and ``inventory`` are always accepted and never listed: every observation
        already contains their result.
        """
        commands = [
            Command("go", direction)
            for direction, other in self.exits[self.here].items()
            if not self.locked_door(self.here, other)
        ]
        monster = self.guard(self.here)
        carried = self.items_in(CARRIED)
        if monster is None:
            commands += [Command("take", item) for item in self.visible_items()]
            commands += [Command("drop", item) for item in carried]
        elif self.place[self.banes[monster]] == CARRIED:
            commands.append(Command("attack", monster))
        for box in self.containers_here():
            if self.closed[box]:
                commands.append(Command("open", box))
            elif monster is None:
                commands += [Command("put", item, box) for item in carried]
        commands += [
            Command("unlock", door, self.keys[door])
            for door, ends in self.doors.items()
            if self.here in ends and self.locked[door] and self.place[self.keys[door]] == CARRIED
        ]
        return commands

    def do(self, command: Command) -> None:
        """Carry out a command that ``usable`` lists."""
        verb, noun, other = command
        if verb == "go":
            self.here = self.exits[self.here][noun]
            self.came_from = OPPOSITE[noun]
        elif verb == "take":
            self.place[noun] = CARRIED
        elif verb == "drop":
            self.place[noun] = self.here
        elif verb == "put":
            self.place[noun] = other
        elif verb == "open":
            self.closed[noun] = False
        elif verb == "unlock":
            self.locked[noun] = False
        elif verb == "attack":
            del self.monsters[noun]


Chore = tuple[Command, str]
"""A command and the room to give it in."""


class Goal(Protocol):
    """A goal in a world; ``str(goal)`` is the text that the player reads."""

    def is_done(self, world: World) -> bool:
        """Return whether the goal is reached."""

    def ask(self, needs: Needs) -> None:
        """Add the commands that already help to reach the goal to ``needs``."""


@dataclass(frozen=True, slots=True)
class Quest:
    """Bring ``item`` to ``target``: a room, or a container in ``room``."""

    item: str
    target: str
    room: str

    def is_done(self, world: World) -> bool:
        return world.place[self.item] == self.target

    def ask(self, needs: Needs) -> None:
        """Add the commands that bring the item closer to its target."""
        if needs.world.place[self.item] != CARRIED:
            needs.item(self.item)
        elif needs.way_is_open(self.room):
            joint = (
                ("drop", self.item) if self.target == self.room else ("put", self.item, self.target)
            )
            needs.chores.append((Command(*joint), self.room))

    def __str__(self) -> str:
        if self.target == self.room:
            return f"bring the {self.item} to the {self.room} and drop it there"
        return f"put the {self.item} in the {self.target} in the {self.room}"


def objective(world: World, quest: Goal) -> Chore:
    """Return the next thing to be done and the room to do it in."""
    needs = Needs(world)
    quest.ask(needs)
    return min(needs.chores, key=lambda chore: needs.steps(chore[1]))


def next_command(world: World, quest: Goal) -> Command:
    """Return the planner's next command."""
    command, room = objective(world, quest)
    return command if room == world.here else Command("go", world.way_to(room)[0][0])


def distance(world: World, quest: Goal) -> int:
    """Return how many commands the planner needs from here."""
    world, steps = world.clone(), 0
    while not quest.is_done(world):
        command, room = objective(world, quest)
        steps += len(world.way_to(room)) + 1
        world.here = room
        world.do(command)
    return steps


class Needs:
    """Collects the needed commands that can already be carried out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chores: list[Chore] = []
        self._asked: set[str] = set()

    def item(self, item: str) -> None:
        """Add the commands that lead to holding ``item``."""
        world = self.world
        if world.place[item] == CARRIED or item in self._asked:
            return
        self._asked.add(item)
        place = world.place[item]
        room = world.containers.get(place, place)
        ready = self.way_is_open(room)
        if ready and place != room and world.closed[place]:
            self.chores.append((Command("open", place), room))
        if monster := world.guard(room):
            self.item(world.banes[monster])
            if ready and world.place[world.banes[monster]] == CARRIED:
                self.chores.append((Command("attack", monster), room))
        elif ready and not world.closed.get(place, False):
            self.chores.append((Command("take", item), room))

    def way_is_open(self, room: str) -> bool:
        """Return whether ``room`` can be reached; if not, add the commands that open the path."""
        world, before, is_open = self.world, self.world.here, True
        for _, after in world.way_to(room):
            if door := world.locked_door(before, after):
                self.item(world.keys[door])
                if is_open and world.place[world.keys[door]] == CARRIED:
                    self.chores.append((Command("unlock", door, world.keys[door]), before))
                is_open = False
            before = after
        return is_open

    def steps(self, room: str) -> int:
        return len(self.world.way_to(room))
