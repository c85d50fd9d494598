"""Words for Gymnasium's FrozenLake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from llm_gym.as_text.phrasebooks.book import Phrasebook
from llm_gym.as_text.phrasebooks.grids import directions, draw, slip_chance, slip_text


class FrozenLakeWords(Phrasebook):
    """The lake as a map; P is the player, a dot is ice, H is a hole and G is the goal."""

    names = ("left", "down", "right", "up")
    aliases = directions(names)

    def __init__(self, env: gym.Env[Any, Any], *, reads_actions: bool = True) -> None:
        super().__init__(env, reads_actions=reads_actions)
        rows = [b"".join(row).decode() for row in self.game.desc.tolist()]
        self._cells = "".join(rows).replace("S", ".").replace("F", ".")
        lake = [row.replace("S", ".").replace("F", ".") for row in rows]
        # One picture per place: the lake never changes, and every step shows one.
        self._pictures = [draw(lake, at) for at in range(len(self._cells))]

    def rules_text(self) -> str:
        told = [
            "Cross the frozen lake to the goal. On the map, P is you, a dot is ice, H is a hole "
            "and G is the goal. Move up, down, left or right; at the edge you stay where you are.",
            slip_text(slip_chance(self.game.P)),
            "If you fall into a hole, you lose.",
            self.limit_text(),
        ]
        return " ".join(filter(None, told))

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        return self._pictures[int(observation)]

    def ending(self, reward: float) -> str:
        there = self._cells[int(self.game.s)]
        return {"G": "You reach the goal.", "H": "You fall into a hole."}.get(
            there, super().ending(reward)
        )

    def success(
        self, total: float, terminated: bool, reward: float, info: Mapping[str, Any]
    ) -> bool | None:
        return terminated and self._cells[int(self.game.s)] == "G"
