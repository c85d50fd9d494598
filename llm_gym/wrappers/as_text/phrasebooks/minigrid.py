"""Words for MiniGrid and BabyAI: the mission, what is seen, and a picture of the view."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np

from llm_gym.wrappers.as_text.phrasebooks.book import Phrasebook
from llm_gym.wrappers.as_text.phrasebooks.planning import way_to_goal

# The numbers in an image of MiniGrid. They are written into every data set made with it, and
# having them here keeps this module importable without it.
_KINDS = (
    "unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent",
)  # fmt: skip
_COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
_DOORS = ("open", "closed", "locked")
_MARKS = dict(zip(_KINDS, "?.#.DKBXG~@", strict=True))
_WAYS = ("east", "south", "west", "north")
_PLAIN = {"unseen", "empty", "wall", "floor"}


class MiniGridWords(Phrasebook):
    """The mission, the direction, what is carried, and what is seen and where."""

    names = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle", "done")
    aliases = {
        "left": 0, "right": 1, "forward": 2, "move forward": 2, "go ahead": 2, "pickup": 3,
        "open": 5, "open door": 5, "unlock": 5,
    }  # fmt: skip

    def __init__(self, env: gym.Env[Any, Any], *, reads_actions: bool = True) -> None:
        super().__init__(env, reads_actions=reads_actions)
        self._bot: Any = None
        self._bot_task: Any = None
        self._since: list[Any] = []  # actions since the bot was asked

    def rules_text(self) -> str:
        return (
            "You walk in a world of rooms and have a mission. You see the squares ahead of you, "
            "though not through walls and closed doors. On the picture of your view, @ is you, "
            "looking up; # is a wall, a dot is free, ? is not seen, D is a door, K a key, B a "
            "ball, X a box, G the goal and ~ is lava, which ends everything. pick up takes what is "
            "right ahead, drop puts it down there; toggle opens a door or box right ahead, and a "
            "locked door if you carry the key of its colour. Fewer moves earn more."
        )

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        view: Any = observation.get("image") if isinstance(observation, Mapping) else None
        size = self.game.agent_view_size
        standard = isinstance(view, np.ndarray) and view.shape == (size, size, 3)
        if not standard or int(view[:, :, 0].max()) >= len(_KINDS) - 1:
            # A wrapper shows something else, such as the whole grid with the agent in it.
            return super().describe(observation, info)
        cells, middle = view.tolist(), size // 2
        carried = cells[middle][size - 1]
        cells[middle][size - 1] = [_KINDS.index("agent"), 0, 0]
        seen = _things(cells, middle)
        way = _WAYS[int(observation["direction"])]
        hands = _name(*carried) if _KINDS[carried[0]] not in _PLAIN else "nothing"
        return (
            f"Mission: {observation['mission']}\n"
            f"You face {way} and carry {hands}.\n"
            f"You see {', '.join(seen) if seen else 'nothing special'}.\n{_picture(cells)}"
        )

    def ending(self, reward: float) -> str:
        return "Your mission is done." if reward > 0 else "Your mission has failed."

    def success(
        self, total: float, terminated: bool, reward: float, info: Mapping[str, Any]
    ) -> bool | None:
        return terminated and reward > 0

    def played(self, action: Any) -> None:
        if self._bot is not None:
            self._since.append(action)

    def oracle_move(self) -> str:
        """Ask the bot that comes with BabyAI, or walk the shortest way to the goal."""
        task = getattr(self.game, "instrs", None)
        if task is None:
            if not (way := way_to_goal(self.game)):
                raise NotImplementedError("the player of MiniGrid needs a way to a goal square")
            return self.names[way[0]]
        if task is not self._bot_task or len(self._since) > 1:
            bots = import_module("minigrid.utils.baby_ai_bot")
            self._bot, self._bot_task, self._since = bots.BabyAIBot(self.env), task, []
        action = self._bot.replan(self._since[0] if self._since else None)
        self._since = []
        return self.names[int(action)]


def _things(cells: Sequence[Sequence[Sequence[int]]], middle: int) -> list[str]:
    last, found = len(cells) - 1, []
    for column, line in enumerate(cells):
        for row, (kind, colour, state) in enumerate(line):
            if _KINDS[kind] in _PLAIN or (column, row) == (middle, last):
                continue
            ahead, aside = last - row, column - middle
            where = [f"{ahead} ahead"] if ahead else []
            if aside:
                where.append(f"{abs(aside)} to the {'right' if aside > 0 else 'left'}")
            name = _name(kind, colour, state)
            found.append((ahead + abs(aside), f"{name} {' and '.join(where)}"))
    return [text for _, text in sorted(found)]


def _name(kind: int, colour: int, state: int) -> str:
    """Return the name of a thing.

    >>> _name(4, 0, 2), _name(6, 2, 0), _name(9, 0, 0)
    ('a locked red door', 'a blue ball', 'lava')
    """
    thing = _KINDS[kind]
    if thing == "lava":
        return thing
    if thing == "goal":
        return "the goal"
    words = [_COLOURS[colour], thing]
    if thing == "door":
        words.insert(0, _DOORS[state])
    return f"{'an' if words[0] == 'open' else 'a'} {' '.join(words)}"


def _picture(cells: Sequence[Sequence[Sequence[int]]]) -> str:
    rows = range(len(cells))
    return "\n".join(" ".join(_MARKS[_KINDS[line[row][0]]] for line in cells) for row in rows)
