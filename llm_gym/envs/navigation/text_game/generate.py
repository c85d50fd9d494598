"""Draw a world and a quest that is solvable by construction.

The map is a random tree on a grid. Locking some of its edges cuts it into regions; lock i opens
region i, and the key of lock i+1 lies in region i, so the locks must be opened in order. The
quest's item lies in the last region. Monsters and closed containers then block needed items, and
each weapon lies where the player can reach it before its monster.
"""

import numpy as np

from llm_gym.envs.navigation.text_game import words
from llm_gym.envs.navigation.text_game.world import DIRECTIONS, OPPOSITE, Quest, World


def longest_quest(locks: int) -> int:
    """Return the longest quest that fits into every map with ``locks`` locks."""
    return 2 + 2 * locks + min(len(words.CONTAINERS), locks + 2) + 2


def generate(
    rng: np.random.Generator, rooms: int, items: int, quest_length: int, locks: int, names: int
) -> tuple[World, Quest]:
    """Return a new world and its quest."""
    exits, order = draw_map(some(words.ROOMS[:names], rooms, rng), rng)
    world = World(exits, here=order[0])
    regions = _lock_doors(world, order, locks, rng)
    things = some(words.ITEMS[:names], items + 1, rng)
    goal = things[0]
    # The item that each region holds: the key of the next region; in the last one, the goal.
    needed = [*(world.keys[door] for door in world.doors), goal]
    for item, region in zip(needed, regions, strict=True):
        world.place[item] = pick(region if region[1:] == [] else _not(region, order[0]), rng)
    boxes = _bar_the_way(world, needed, regions, quest_length - 2 - 2 * locks, rng)
    free = [room for room in order if world.guard(room) is None]
    for item in things[1:]:
        world.place[item] = pick(free, rng)
    lies_in = world.containers.get(world.place[goal], world.place[goal])
    room = target = pick(_not(free, lies_in), rng)
    if quest_length > 2 and boxes and rng.random() < 0.5:
        target = boxes.pop()
        world.containers[target], world.closed[target] = room, False
    return world, Quest(goal, target, room)


def draw_map(
    names: list[str], rng: np.random.Generator
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the exits of each room, and the rooms in the order in which the tree grew."""
    at = {(0, 0): names[0]}
    exits: dict[str, dict[str, str]] = {name: {} for name in names}
    for name in names[1:]:
        cells = [
            (room, direction, (x + dx, y + dy))
            for (x, y), room in at.items()
            for direction, (dx, dy) in DIRECTIONS.items()
            if (x + dx, y + dy) not in at
        ]
        room, direction, cell = cells[int(rng.integers(len(cells)))]
        at[cell] = name
        exits[room][direction] = name
        exits[name][OPPOSITE[direction]] = room
    # The text must not reveal the order in which the tree grew.
    return {
        room: {way: exits[room][way] for way in DIRECTIONS if way in exits[room]} for room in names
    }, names


def _lock_doors(
    world: World, order: list[str], locks: int, rng: np.random.Generator
) -> list[list[str]]:
    """Lock ``locks`` edges of the tree and return the regions, the player's region first."""
    parents = {
        room: next(other for other in world.exits[room].values() if other in order[:at])
        for at, room in enumerate(order)
        if at
    }
    # In the order of growth, the parent of a region is always opened before the region.
    behind = sorted(some(order[1:], locks, rng), key=order.index)
    for metal, room in zip(some(words.METALS, locks, rng), behind, strict=True):
        door = f"{metal} door"
        world.doors[door], world.keys[door] = (parents[room], room), f"{metal} key"
        world.locked[door] = True
    region_of = {order[0]: 0}
    for room in order[1:]:
        region_of[room] = behind.index(room) + 1 if room in behind else region_of[parents[room]]
    return [[room for room in order if region_of[room] == at] for at in range(locks + 1)]


def _bar_the_way(
    world: World, needed: list[str], regions: list[list[str]], steps: int, rng: np.random.Generator
) -> list[str]:
    """Spend ``steps`` on monsters (2 each: arm, defeat) and containers (1 each: open).

    The dependencies have no cycle: a weapon lies in a region that opens before its monster's
    region, and never in a room that is already guarded. Returns the names of unused containers.
    """
    monsters = some(words.MONSTERS, len(words.MONSTERS), rng)
    weapons = some(words.WEAPONS, len(words.WEAPONS), rng)
    boxes = some(words.CONTAINERS, len(words.CONTAINERS), rng)
    room_of = {item: world.place[item] for item in needed}
    most = min(steps // 2, len(monsters))
    fits = [n for n in range(most + 1) if steps - 2 * n <= min(len(boxes), len(needed) + n)]
    wanted = fits[int(rng.integers(len(fits)))]
    while len(world.monsters) < wanted:
        unguarded = [
            room
            for room in dict.fromkeys(room_of.values())
            if room != world.here and world.guard(room) is None
        ]
        if not unguarded:  # on a small map; ``longest_quest`` promises room for one
            break
        room, monster, weapon = pick(unguarded, rng), monsters.pop(), weapons.pop()
        world.monsters[monster], world.banes[monster] = room, weapon
        reach = next(at for at, region in enumerate(regions) if room in region)
        safe = [name for region in regions[: reach + 1] for name in region]
        safe = [name for name in safe if world.guard(name) is None]
        world.place[weapon] = room_of[weapon] = pick(safe, rng)
    for item in some(list(room_of), steps - 2 * len(world.monsters), rng):
        box = boxes.pop()
        world.containers[box], world.closed[box] = room_of[item], True
        world.place[item] = box
    return boxes


def some(names: list[str] | tuple[str, ...], count: int, rng: np.random.Generator) -> list[str]:
    """Return ``count`` different names in random order."""
    return [names[at] for at in rng.permutation(len(names))[:count]]


def pick(names: list[str], rng: np.random.Generator) -> str:
    """Return one of the names."""
    return names[int(rng.integers(len(names)))]


def _not(names: list[str], one: str) -> list[str]:
    return [name for name in names if name != one]
