"""Words for Gymnasium's LunarLander."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_gym.as_text.phrasebooks.book import Phrasebook
from llm_gym.as_text.phrasebooks.observations import number

_NAMES = ("Sideways", "height", "sideways speed", "vertical speed", "tilt", "tilt speed")

_ENGINES = ("main engine", "side engines")


class LunarLanderWords(Phrasebook):
    """Where the lander is, how it moves, how it is tilted, and which legs stand."""

    names = ("do nothing", "fire left engine", "fire main engine", "fire right engine")
    aliases = {"nothing": 0, "wait": 0, "left": 1, "main": 2, "right": 3}

    def _action_names(self) -> Sequence[str] | None:
        if getattr(self.game, "continuous", False):
            return _ENGINES
        return super()._action_names()

    def rules_text(self) -> str:
        told = [
            "Land softly on the pad, which is at sideways 0 and height 0. To the right and up are "
            "positive. Tilt is in radians, positive to the left. The main engine pushes the lander "
            "along its axis, up when it is upright; the left engine pushes and tilts it to "
            "the left, the right engine to the right. A crash costs 100 points, "
            "coming to rest earns 100, each leg on the ground 10; engines cost fuel. 200 points "
            "count as a success.",
        ]
        if getattr(self.game, "continuous", False):
            told.append(
                "The main engine burns above 0, from half power to full at 1. The side engines "
                "burn beyond 0.5: the left one below -0.5, the right one above 0.5."
            )
        if getattr(self.game, "enable_wind", False):
            told.append("There is wind.")
        return " ".join([*told, self.limit_text()]).strip()

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        *numbers, left, right = map(float, observation)
        told = [f"{name} {number(x)}" for name, x in zip(_NAMES, numbers, strict=True)]
        legs = [f"{side} leg {'down' if leg else 'up'}" for side, leg in _legs(left, right)]
        return ", ".join(told + legs)

    def ending(self, reward: float) -> str:
        return "The lander is at rest." if reward > 0 else "The lander has crashed."


def _legs(left: float, right: float) -> tuple[tuple[str, float], ...]:
    return ("left", left), ("right", right)
