"""The quest, and the planner that solves it from any state.

The planner works backwards: to deliver a thing one must hold it, to hold it one must reach it, to
reach it one may have to unlock a door, for which one must hold a key, and so on. Dependencies
cannot form a circle (see ``generate``), so it always ends. Its plan is a good one rather than
the shortest one: it does not pick things up on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_gym.envs.text_game.world import CARRIED, Command, World


@dataclass(frozen=True, slots=True)
class Quest:
    """Bring ``item`` to ``target``: a room, or a container in ``room``."""

    item: str
    target: str
    room: str

    def is_done(self, world: World) -> bool:
        """Return whether the thing is where it belongs."""
        return world.place[self.item] == self.target

    def __str__(self) -> str:
        if self.target == self.room:
            return f"bring the {self.item} to the {self.room} and drop it there"
        return f"put the {self.item} in the {self.target} in the {self.room}"


def objective(world: World, quest: Quest) -> tuple[Command, str]:
    """Return the next thing to be done and the room to do it in."""
    if world.place[quest.item] != CARRIED:
        return _obtain(world, quest.item)
    if step := _way_in(world, quest.room):
        return step
    if quest.target == quest.room:
        return Command("drop", quest.item), quest.room
    if world.closed[quest.target]:
        return Command("open", quest.target), quest.room
    return Command("put", quest.item, quest.target), quest.room


def next_command(world: World, quest: Quest) -> Command:
    """Return the planner's next command."""
    command, room = objective(world, quest)
    return command if room == world.here else Command("go", world.first_steps(room)[0][0])


def distance(world: World, quest: Quest) -> int:
    """Return how many commands the planner needs from here."""
    world, steps = world.clone(), 0
    while not quest.is_done(world):
        command, room = objective(world, quest)
        way = world.first_steps(room)
        if way:
            world.here = room
        world.do(command)
        steps += len(way) + 1
    return steps


def _obtain(world: World, item: str) -> tuple[Command, str]:
    place = world.place[item]
    room = world.containers.get(place, place)
    if step := _way_in(world, room):
        return step
    if monster := world.guard(room):
        weapon = world.banes[monster]
        if world.place[weapon] != CARRIED:
            return _obtain(world, weapon)
        return Command("attack", monster), room
    if place != room and world.closed[place]:
        return Command("open", place), room
    return Command("take", item), room


def _way_in(world: World, room: str) -> tuple[Command, str] | None:
    """Return what opens the first locked door on the way to ``room``, if there is one."""
    before = world.here
    for _, after in world.first_steps(room):
        door = world.door_between(before, after)
        if door and world.locked[door]:
            key = world.keys[door]
            if world.place[key] != CARRIED:
                return _obtain(world, key)
            return Command("unlock", door, key), before
        before = after
    return None
