"""Difficulty: one number in [0, 1] that stands for several settings of a game.

It is given for all episodes, to the constructor, or for one, to ``reset``. The settings that it
stands for are the game's own (``Game.at_difficulty``).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from llm_gym.core.game import Game
from llm_gym.errors import ConfigError


class Knobs(Game):
    """The settings that the difficulty turns, of the environment and of the present episode."""

    _knobs: Mapping[str, Any]
    _active_knobs: Mapping[str, Any]
    _rules_cache: str | None
    """The rules as they stand; None after a setting has changed."""

    def _settle_difficulty(self, difficulty: float | None) -> None:
        knobs = self.at_difficulty(0.0)
        if difficulty is not None:
            defaults = inspect.signature(type(self).__init__).parameters
            given = {
                name: getattr(self, name)
                for name in knobs
                if name in defaults and getattr(self, name) != defaults[name].default
            }
            if given:
                raise ConfigError(
                    f"difficulty sets {', '.join(knobs)}; got difficulty={difficulty} and {given}"
                )
            knobs = self._knobs_at(difficulty)
        self._turn_knobs({} if difficulty is None else knobs)
        self._knobs = self._active_knobs = {name: getattr(self, name) for name in knobs}

    def _apply_knobs(self, difficulty: float | None) -> None:
        """Set the settings of one episode's difficulty, or go back to the environment's own."""
        self._active_knobs = self._knobs if difficulty is None else self._knobs_at(difficulty)
        self._turn_knobs(self._active_knobs)

    def _turn_knobs(self, knobs: Mapping[str, Any]) -> None:
        for name, value in knobs.items():
            setattr(self, name, value)  # ``vars`` would build a dictionary that slows every step
        self._rules_cache = None
        self.check_settings()

    def _knobs_at(self, difficulty: float) -> Mapping[str, Any]:
        if not 0.0 <= difficulty <= 1.0:
            raise ConfigError(f"difficulty must be in [0, 1], got {difficulty}")
        knobs = self.at_difficulty(difficulty)
        if not knobs:
            raise ConfigError(f"{type(self).__name__} has no difficulty setting")
        return knobs
