"""The quest, and the planner that solves it from any state.

The planner asks what is still needed: to deliver a thing one must hold it, to hold it one must
reach it, to reach it one may have to unlock a door, for which one must hold a key, and so on.
Needs cannot form a circle (see ``generate``). Of all that is needed and can be done by now, it
does the nearest first, so it picks things up on its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from llm_gym.envs.navigation.text_game.world import CARRIED, Command, World

Chore = tuple[Command, str]
"""A command and the room to give it in."""


class Goal(Protocol):
    """What is to be reached in a world; its text is what the player is told."""

    def is_done(self, world: World) -> bool:
        """Return whether it is reached."""

    def ask(self, needs: Needs) -> None:
        """Add what can be done for it by now to ``needs``."""


@dataclass(frozen=True, slots=True)
class Quest:
    """Bring ``item`` to ``target``: a room, or a container in ``room``."""

    item: str
    target: str
    room: str

    def is_done(self, world: World) -> bool:
        """Return whether the thing is where it belongs."""
        return world.place[self.item] == self.target

    def ask(self, needs: Needs) -> None:
        """Add what brings the thing closer."""
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
    """Collects what can be done now among all that is needed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chores: list[Chore] = []
        self._asked: set[str] = set()

    def item(self, item: str) -> None:
        """Add what it takes to hold ``item``."""
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
        """Return whether ``room`` can be reached; if not, add what opens the way."""
        world, before, is_open = self.world, self.world.here, True
        for _, after in world.way_to(room):
            door = world.door_between(before, after)
            if door and world.locked[door]:
                self.item(world.keys[door])
                if is_open and world.place[world.keys[door]] == CARRIED:
                    self.chores.append((Command("unlock", door, world.keys[door]), before))
                is_open = False
            before = after
        return is_open

    def steps(self, room: str) -> int:
        """Return how far ``room`` is."""
        return len(self.world.way_to(room))
