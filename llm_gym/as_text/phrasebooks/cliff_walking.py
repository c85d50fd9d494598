"""Words for Gymnasium's CliffWalking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from llm_gym.as_text.phrasebooks.book import Phrasebook
from llm_gym.as_text.phrasebooks.grids import directions, draw, slip_chance, slip_text


class CliffWalkingWords(Phrasebook):
    """The ground as a map; P is the player, C is the cliff and G is the goal."""

    names = ("up", "right", "down", "left")
    aliases = directions(names)

    def __init__(self, env: gym.Env[Any, Any], *, reads_actions: bool = True) -> None:
        super().__init__(env, reads_actions=reads_actions)
        cliff = np.asarray(self.game._cliff)
        ground = [["C" if cell else "." for cell in row] for row in cliff.tolist()]
        ground[-1][-1] = "G"
        rows = ["".join(row) for row in ground]
        self._pictures = [draw(rows, at) for at in range(cliff.size)]

    def rules_text(self) -> str:
        told = [
            "Walk along the cliff to the goal. On the map, P is you, a dot is safe ground, C is "
            "the cliff and G is the goal. Move up, down, left or right; at the edge you stay where "
            "you are. Every move costs 1 point; a step into the cliff costs 100 and takes you back "
            "to the start, which is the bottom left corner.",
            slip_text(slip_chance(self.game.P)),
            self.limit_text(),
        ]
        return " ".join(filter(None, told))

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        return self._pictures[int(observation)]

    def ending(self, reward: float) -> str:
        return "You reach the goal."

    def success(
        self, total: float, terminated: bool, reward: float, info: Mapping[str, Any]
    ) -> bool | None:
        return terminated
