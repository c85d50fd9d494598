"""A quest in a generated world of rooms, doors, containers and monsters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from llm_gym import setting
from llm_gym.envs.navigation.text_game import solver, words
from llm_gym.envs.navigation.text_game.base import Style, WorldEnv
from llm_gym.envs.navigation.text_game.generate import generate, longest_quest
from llm_gym.envs.navigation.text_game.view import MARK
from llm_gym.envs.navigation.text_game.world import Quest, World


class TextGameEnv(WorldEnv):
    """Explore a house, find what is needed, and bring a thing where it belongs.

    Description:
        Every episode is a new map with a quest of ``quest_length`` dependent steps: items to
        fetch, doors to unlock, monsters to defeat, containers to open, and a delivery at the
        end. Other items are distractors. Every instance can be solved in ``max_turns`` turns, and
        no move makes it unsolvable.

        ``hints`` decides how much the player must find out. TextGameEasy gives all hints: each
        observation names the next task and marks the way to it, so a player without memory can
        win. It teaches the form of replies and tests no exploration. TextGameMedium gives none:
        a player without memory walks in circles.

    Actions:
        ``go north`` (``move``, ``walk``, ``n``), ``take lamp`` (``pick up``, ``get``),
        ``drop lamp``, ``open chest``, ``put lamp in chest``, ``unlock brass door with brass key``,
        ``attack troll``, ``look``, ``inventory``. Articles are ignored, and one word of a name
        is enough if it is unambiguous.

    Observations:
        The result of the last move, then the room: exits, items, guards, inventory, quest and
        turns left. Each level of ``hints`` adds one thing: 1 the next task and its room, 2 the
        direction back, 3 the names of neighbouring rooms, 4 a mark (``*``) on the task's room if
        it is this room or a neighbour. ``style="terse"`` says the same in few words.

    Rewards:
        1 when the quest is done, otherwise 0. With ``shaping``, the potential is the ``progress``
        along the planner's solution.

    Episode end:
        Terminates when the quest is done (won) and after ``max_turns`` turns (lost).

    Args:
        rooms: Rooms of the map.
        items: Number of distractor items, which the quest does not need.
        quest_length: Steps of the quest, at least 2: fetch and deliver. A lock takes two more
            (key, door), a monster two (weapon, fight), a closed container one.
        locks: Number of locked doors; the quest needs all of them open.
        hints: How much the observation tells, 0 to 4.
        names: How many names of rooms and of items are used; few names make a small vocabulary.
        style: ``prose`` or ``terse``.
        max_turns: Turns allowed; ``rooms`` * ``quest_length`` is always enough. With fewer, worlds
            that need more are drawn again; if almost all do, the settings are an error.
        **common: See ``TextEnv``.
    """

    _quest: Quest

    rooms: int = setting(6)
    items: int = setting(4)
    quest_length: int = setting(5)
    locks: int = setting(1)
    hints: int = setting(0, 0, MARK)
    names: int = setting(24, 2, len(words.ROOMS))
    style: Style = setting("prose")
    max_turns: int = setting(50, 2)

    def check_settings(self) -> None:
        most = min(self.names, len(words.ROOMS), len(words.ITEMS))
        self.check_range("rooms", 2, most)
        self.check_range("items", 0, most - 1)
        self.check_range("locks", 0, min(len(words.METALS), self.rooms - 1))
        self.check_range("quest_length", 2 + 2 * self.locks, longest_quest(self.locks))
        self.check_winnable()

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        rooms, locks = round(4 + 12 * difficulty), round(3 * difficulty)
        quest_length = 2 + 2 * locks + round(3 * difficulty)
        return {
            "rooms": rooms,
            "items": round(2 + 8 * difficulty),
            "quest_length": quest_length,
            "locks": locks,
            "hints": round(MARK * (1 - difficulty)),
            "names": round(8 + 16 * difficulty),
            "max_turns": rooms * (quest_length + 2),
        }

    # --- the game ------------------------------------------------------------------------

    def draw_world(self, rng: np.random.Generator) -> tuple[World, Quest]:
        return generate(rng, self.rooms, self.items, self.quest_length, self.locks, self.names)

    def most_turns(self) -> int:
        return self.rooms * self.quest_length  # a walk through all rooms before each step

    def rules_text(self) -> str:
        return (
            "You are in a house of rooms and have a quest. Your move is one command: go DIRECTION "
            "(north, east, south or west), take THING, drop THING, open CONTAINER, put THING in "
            "CONTAINER, unlock DOOR with KEY, attack MONSTER, look or inventory. A key opens the "
            "door of its own metal. While a monster is "
            "in a room, nothing there can be taken or left; attack it with the weapon it fears."
            + (" A * marks the room of your next task." if self.hints >= MARK else "")
        )

    def example_moves(self) -> Sequence[str]:
        things = [f"take {words.ITEMS[0]}", f"drop {words.ITEMS[0]}"]
        return ["go north", "go east", "go south", "go west", *things, "look", "inventory"]

    def swap_secret(self, rng: np.random.Generator) -> bool:
        world = self._world
        unseen = [room for room in world.exits if room not in self._visited]
        useless = [
            item
            for item in words.ITEMS
            if item != self._quest.item and world.place.get(item) in unseen
        ]
        if len(unseen) < 2 or not useless:
            return False
        item = useless[int(rng.integers(len(useless)))]
        rooms = [room for room in unseen if room != world.place[item]]
        world.place[item] = rooms[int(rng.integers(len(rooms)))]
        return True

    solve = staticmethod(solver.solve)
