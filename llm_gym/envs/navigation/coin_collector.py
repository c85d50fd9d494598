"""Find the coin at the end of a chain of rooms, past its dead ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from llm_gym import setting
from llm_gym.envs.navigation.text_game import words
from llm_gym.envs.navigation.text_game.base import Style, WorldEnv
from llm_gym.envs.navigation.text_game.solver import explore, take_notes
from llm_gym.envs.navigation.text_game.world import CARRIED, DIRECTIONS, OPPOSITE, Needs, World

Mode = Literal["simple", "random"]
ROOMS = words.ROOMS + words.MORE_ROOMS
COIN = "coin"


class CoinCollectorEnv(WorldEnv):
    """Find a coin in a house of rooms and take it.

    Description:
        The player starts at one end of a chain of rooms; the coin lies at the other. Dead-end
        rooms are added along the chain. Every step can be reversed, but the map need not fit on
        a grid: two rooms may have the same coordinates. This game follows TextWorld's challenge
        of the same name.

    Actions:
        ``go north`` (``move``, ``walk``, ``n``), ``take coin``, ``look``, ``inventory``.

    Observations:
        The result of the last move, then the room: exits, items, inventory, quest and turns left.
        ``style="terse"`` says the same in few words.

    Rewards:
        1 for taking the coin, otherwise 0. With ``shaping``, the potential is the
        ``progress`` along the shortest path.

    Episode end:
        Terminates when the coin is taken (won) and after ``max_turns`` turns (lost).

    Args:
        level: Rooms of the chain, 2 to 20, and so the moves of the shortest solution.
        dead_ends: Rooms added for each room of the chain, 0 to 2.
        mode: Where dead ends are added: ``simple`` only to rooms of the chain, so every detour is
            one room long; ``random`` to any room, so detours can be longer.
        style: ``prose`` or ``terse``.
        max_turns: Turns allowed, at least ``level``.
        **common: See ``TextEnv``.
    """

    level: int = setting(5, 2, 20)
    dead_ends: int = setting(1, 0, 2)
    mode: Mode = setting("simple")
    style: Style = setting("prose")
    max_turns: int = setting(20)

    def check_settings(self) -> None:
        self.check_range("max_turns", self.level)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        level, dead_ends = round(3 + 12 * difficulty), round(2 * difficulty)
        return {
            "level": level,
            "dead_ends": dead_ends,
            "max_turns": level * (2 + 2 * dead_ends),  # enough to visit every room
        }

    def draw_world(self, rng: np.random.Generator) -> tuple[World, Find]:
        return draw_house(self.level, self.dead_ends, self.mode, rng), Find(COIN)

    def most_turns(self) -> int:
        return self.level  # the path to the coin has this length in every house

    def rules_text(self) -> str:
        return (
            "You are in a house of rooms. Somewhere lies a coin: find it and take it. Your move is "
            "one command: go DIRECTION (north, east, south or west), take THING, look or inventory."
        )

    def swap_secret(self, rng: np.random.Generator) -> bool:
        unseen = [room for room in self._world.exits if room not in self._visited]
        others = [room for room in unseen if room != self._world.place[COIN]]
        if not others or len(others) == len(unseen):
            return False
        self._world.place[COIN] = others[int(rng.integers(len(others)))]
        return True

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Follow the wall on the right-hand side."""
        world = self._world
        if world.place[COIN] == world.here:
            return f"take {COIN}"
        last = self._base_moves[-1].removeprefix("go ") if self._base_moves else ""
        ways = list(DIRECTIONS)
        heading = ways.index(last) if last in ways else 0
        turns = [ways[(heading + turn) % 4] for turn in (1, 0, 3, 2)]
        return next((f"go {way}" for way in turns if way in world.exits[world.here]), "look")

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Walk to the nearest unseen room until the coin is found."""
        notes, view = take_notes(observations, moves)
        return f"take {COIN}" if COIN in view.items else explore(notes, view)


@dataclass(frozen=True, slots=True)
class Find:
    """Find ``item`` and take it."""

    item: str

    def is_done(self, world: World) -> bool:
        return world.place[self.item] == CARRIED

    def ask(self, needs: Needs) -> None:
        """Add the commands that lead to holding the item."""
        needs.item(self.item)

    def __str__(self) -> str:
        return f"find the {self.item} and take it"


def draw_house(level: int, dead_ends: int, mode: Mode, rng: np.random.Generator) -> World:
    """Return a chain of ``level`` rooms with its dead ends, the player and the coin at its ends."""
    count = level * (1 + dead_ends)
    names = [ROOMS[at] for at in rng.permutation(len(ROOMS))[:count].tolist()]
    exits: dict[str, dict[str, str]] = {name: {} for name in names}
    for room, beyond in pairwise(names[:level]):
        _join(exits, room, beyond, rng)
    for at in range(level, count):
        if mode == "simple":
            room = names[at % level]
        else:
            free = [name for name in names[:at] if len(exits[name]) < len(DIRECTIONS)]
            room = free[int(rng.random() * len(free))]
        _join(exits, room, names[at], rng)
    # Shuffle the exits: their order of creation would reveal which ones are dead ends.
    exits = {
        room: {way: ways[way] for way in DIRECTIONS if way in ways} for room, ways in exits.items()
    }
    return World(exits, here=names[0], place={COIN: names[level - 1]})


def _join(exits: dict[str, dict[str, str]], room: str, new: str, rng: np.random.Generator) -> None:
    free = [way for way in DIRECTIONS if way not in exits[room]]
    way = free[int(rng.random() * len(free))]
    exits[room][way] = new
    exits[new][OPPOSITE[way]] = room
