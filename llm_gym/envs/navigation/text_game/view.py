"""The text of a state, in two styles, and the parser for it.

``prose`` is for people and chat models; ``terse`` has one short line per fact, for tiny models with
short contexts. Both say the same. ``parse`` turns either into a ``View``, which is all that the
solver knows.
"""

import re
from dataclasses import dataclass, field

from llm_gym.envs.navigation.text_game.world import CARRIED, DIRECTIONS, Goal, World, objective

OBJECTIVE, CAME_FROM, NEIGHBOURS, MARK = 1, 2, 3, 4
"""Levels of ``hints``: each adds one fact to the observation."""


@dataclass(slots=True)
class Exit:
    """One way out of a room."""

    way: str
    to: str = ""
    """Name of the room behind the exit; empty if the observation does not say it."""
    door: str = ""
    """Name of the locked door; empty if the exit is open."""
    marked: bool = False


@dataclass(slots=True)
class View:
    """Everything one observation says about the state."""

    room: str = ""
    exits: list[Exit] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    boxes: dict[str, list[str] | None] = field(default_factory=dict)
    """Container here → what is in it, None while it is closed."""
    monster: str = ""
    bane: str = ""
    carried: list[str] = field(default_factory=list)
    quest: str = ""
    task: str = ""
    came_from: str = ""
    marked: bool = False
    turns_left: int = 0


def look(world: World, quest: Goal, hints: int, turns_left: int) -> View:
    """Return what the player sees at this level of hints."""
    task, goal_room = "", ""
    if hints >= OBJECTIVE:
        command, goal_room = objective(world, quest)
        # The task leaves out what the player can read in the room: the key, the box.
        task = f"{command.verb} {command.noun} in {goal_room}"
    exits = []
    for way, other in world.exits[world.here].items():
        name, door = other if hints >= NEIGHBOURS else "", world.locked_door(world.here, other)
        exits.append(Exit(way, name, door, hints >= MARK and other == goal_room))
    monster, held = world.guard(world.here) or "", world.contents()
    boxes: dict[str, list[str] | None] = {}
    for box, room in sorted(world.containers.items()):
        if room == world.here:
            boxes[box] = None if world.closed[box] else held.get(box, [])
    return View(
        room=world.here,
        exits=exits,
        items=held.get(world.here, []),
        boxes=boxes,
        monster=monster,
        bane=world.banes[monster] if monster else "",
        carried=held.get(CARRIED, []),
        quest=str(quest),
        task=task,
        came_from=world.came_from if hints >= CAME_FROM else "",
        marked=hints >= MARK and world.here == goal_room,
        turns_left=turns_left,
    )


def prose(view: View) -> str:
    """Return ``view`` in sentences."""
    exits, seen = [], [*view.items]
    for exit in view.exits:
        behind = f" to the {exit.to}" if exit.to else ""
        door = f" (the {exit.door} is locked)" if exit.door else ""
        exits.append(f"{exit.way}{behind}{door}{' *' if exit.marked else ''}")
    for box, held in view.boxes.items():
        inside = " and ".join(held or ()) or "nothing"
        seen.append(f"closed {box}" if held is None else f"open {box} holding {inside}")
    lines = [
        f"You are in the {view.room}{' *' if view.marked else ''}."
        + (f" You came from the {view.came_from}." if view.came_from else ""),
        f"Exits: {', '.join(exits) or 'none'}.",
        f"You see: {', '.join(seen) or 'nothing'}.",
        f"A {view.monster} guards what is here and fears the {view.bane}." if view.monster else "",
        f"You carry: {', '.join(view.carried) or 'nothing'}.",
        f"Quest: {view.quest}.",
        f"Next: {view.task}." if view.task else "",
        f"Turns left: {view.turns_left}.",
    ]
    return "\n".join(filter(None, lines))


def terse(view: View) -> str:
    """Return ``view`` in as few words as possible."""
    exits = " ".join(
        word
        for exit in view.exits
        for locked in [f"( locked {exit.door} )" if exit.door else ""]
        for word in (exit.way, exit.to, locked, "*" * exit.marked)
        if word
    )
    boxes = [
        f"{box} ( {'closed' if held is None else ' , '.join(held)} )".replace("  ", " ")
        for box, held in view.boxes.items()
    ]
    lines = [
        f"in {view.room}{' *' if view.marked else ''}"
        + (f" from {view.came_from}" if view.came_from else ""),
        f"exits {exits or 'none'}",
        f"here {' , '.join([*view.items, *boxes]) or 'nothing'}",
        f"{view.monster} fears {view.bane}" if view.monster else "",
        f"carry {' , '.join(view.carried) or 'nothing'}",
        f"task {view.task}" if view.task else f"quest {view.quest}",
        f"left {view.turns_left}",
    ]
    return "\n".join(filter(None, lines))


# --- reading it back ---------------------------------------------------------------------

_ROOM = re.compile(r"^(?:You are in the|in) (\w+)( \*)?\.?(?:.* from (?:the )?(\w+))?", re.M)
_EXITS = re.compile(r"^(?:Exits:|exits) (.*?)\.?$", re.M)
_EXIT = re.compile(
    rf"({'|'.join(DIRECTIONS)})(?: (?:to the )?(?!{'|'.join(DIRECTIONS)})(\w+))?"
    r"(?: \( ?(?:locked (\w+ door) |the (\w+ door) is locked)\))?( \*)?"
)
_SEEN = re.compile(r"^(?:You see:|here) (.*?)\.?$", re.M)
_MONSTER = re.compile(r"^(?:A )?(\w+) (?:guards what is here and )?fears (?:the )?(\w+)\.?$", re.M)
_CARRIED = re.compile(r"^(?:You carry:|carry) (.*?)\.?$", re.M)
_QUEST = re.compile(r"^(?:Quest:|quest) (.*?)\.?$", re.M)
_TASK = re.compile(r"^(?:Next:|task) (.*?)\.?$", re.M)
_TURNS = re.compile(r"^(?:Turns left:|left) (\d+)", re.M)
_PROSE_BOX = re.compile(r"(closed|open) (\w+)(?: holding (.*))?")
_TERSE_BOX = re.compile(r"(\w+) \( (.*?) ?\)")


def parse(text: str) -> View | None:
    """Return what an observation says, or None if it describes no state (a final one)."""
    room = _ROOM.search(text)
    if room is None:
        return None
    view = View(room=room[1], marked=bool(room[2]), came_from=room[3] or "")
    for way, to, door, prose_door, mark in _EXIT.findall(_group(_EXITS, text)):
        view.exits.append(Exit(way, to, door or prose_door, bool(mark)))
    _parse_seen(_group(_SEEN, text), view)
    if monster := _MONSTER.search(text):
        view.monster, view.bane = monster[1], monster[2]
    view.carried = _names(_group(_CARRIED, text))
    view.quest, view.task = _group(_QUEST, text), _group(_TASK, text)
    view.turns_left = int(_group(_TURNS, text) or 0)
    return view


def _parse_seen(text: str, view: View) -> None:
    def terse_box(found: re.Match[str]) -> str:
        held = found[2].strip()
        view.boxes[found[1]] = None if held == "closed" else _names(held)
        return ""

    text = _TERSE_BOX.sub(terse_box, text)
    for name in _names(text):
        if box := _PROSE_BOX.fullmatch(name):
            held = _names((box[3] or "").replace(" and ", ", "))
            view.boxes[box[2]] = None if box[1] == "closed" else held
        else:
            view.items.append(name)


def _group(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _names(text: str) -> list[str]:
    names = (name.strip() for name in text.split(","))
    return [name for name in names if name and name != "nothing"]
