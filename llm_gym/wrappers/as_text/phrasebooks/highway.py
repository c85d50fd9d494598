"""The phrasebook of highway-env: names of vehicles, and positions and speeds with units."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from llm_gym.wrappers.as_text.phrasebooks.book import Phrasebook
from llm_gym.wrappers.as_text.phrasebooks.observations import number

_ROAD = {"x": "ahead", "y": "to the right", "vx": "speed ahead", "vy": "speed to the right"}
_MAP = {"x": "east", "y": "south", "vx": "speed east", "vy": "speed south"}
_UNITS = {"x": " m", "y": " m", "vx": " m/s", "vy": " m/s"}
_GOAL = {"observation": "You are at", "desired_goal": "Your goal is"}


class HighwayWords(Phrasebook):
    """Vehicles by name, in metres where the scale is known."""

    def rules_text(self) -> str:
        told = [super().rules_text(), "You drive a car."]
        if self._features():
            told.append(
                "Places are metres east and south of one point."
                if self._is_map()
                else "Other vehicles are told as seen from yours: ahead and to the right of it "
                "are positive, and speeds are how much faster they are."
            )
        if "cos_h" in self._features():
            told.append("A heading is in degrees clockwise from east.")
        return " ".join(told)

    def step_limit(self) -> int | None:
        config = getattr(self.game, "config", {})
        if "duration" not in config:
            return super().step_limit()
        return int(config["duration"] * config.get("policy_frequency", 1))  # seconds

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        features = self._features()
        if not features:
            return super().describe(observation, info)
        if self._is_goal():
            scales = list(np.ravel(getattr(self.game.observation_type, "scales", 1.0)))
            scales = scales if len(scales) == len(features) else [1.0] * len(features)
            lines = [
                f"{told}: {self._row(features, np.ravel(observation[key]) * scales)}."
                for key, told in _GOAL.items()
                if key in observation
            ]
            return "\n".join(lines)
        rows = np.asarray(observation)
        lines = []
        for at, row in enumerate(rows):
            there = dict(zip(features, row.tolist(), strict=True))
            if at and not there.pop("presence", 1.0):
                continue
            who = f"vehicle {at}" if at else "you"
            names = [name for name in features if name != "presence"]
            lines.append(f"{who}: {self._row(names, [self._metres(n, there[n]) for n in names])}")
        if len(lines) == 1:
            lines.append("No other vehicle is in sight.")
        return "\n".join(lines)

    def _features(self) -> Sequence[str]:
        features = getattr(getattr(self.game, "observation_type", None), "features", None)
        if not isinstance(features, list) or not all(isinstance(name, str) for name in features):
            return ()
        space = self.env.observation_space
        shape = space.shape if isinstance(space, spaces.Box) else ()
        fits = self._is_goal() or (len(shape) == 2 and shape[1] == len(features))
        return features if fits else ()

    def _is_goal(self) -> bool:
        space = self.env.observation_space
        return isinstance(space, spaces.Dict) and {"desired_goal"} <= set(space.spaces)

    def _is_map(self) -> bool:
        return self._is_goal() or bool(getattr(self.game.observation_type, "absolute", False))

    def _metres(self, name: str, value: float) -> float:
        """Return a scaled number in metres, or metres per second, where the scale is known."""
        ranges = getattr(self.game.observation_type, "features_range", None) or {}
        if not getattr(self.game.observation_type, "normalize", False) or name not in ranges:
            return value
        low, high = ranges[name]
        return float(low + (value + 1.0) / 2.0 * (high - low))

    def _row(self, names: Sequence[str], values: Sequence[float]) -> str:
        words, row = _MAP if self._is_map() else _ROAD, dict(zip(names, values, strict=True))
        if {"cos_h", "sin_h"} <= row.keys():
            angle = math.atan2(row.pop("sin_h"), row.pop("cos_h"))
            row["heading"] = round(math.degrees(angle)) % 360
        return ", ".join(
            f"{words.get(name, name)} {number(round(float(x), 2))}{_UNITS.get(name, '')}"
            for name, x in row.items()
        )

    def _action_names(self) -> Sequence[str] | None:
        kind, space = getattr(self.game, "action_type", None), self.env.action_space
        steers = isinstance(space, spaces.Box) and getattr(kind, "lateral", False)
        both = steers and space.shape == (2,)
        return ["acceleration", "steering"] if both else super()._action_names()
