"""Difficulty: one number in [0, 1] that stands for several settings of a game.

It is given for all episodes, to the constructor, or for one, to ``reset``. The settings that it
stands for are the game's own (``Game.at_difficulty``).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from llm_gym.core.game import Game
from llm_gym.core.typed import check_types, plain
from llm_gym.errors import ConfigError


class Knobs(Game):
    """The settings that the difficulty turns, of the environment and of the present episode."""

    _base_knobs: Mapping[str, Any]
    _base_active_knobs: Mapping[str, Any]
    _base_rules_cache: str | None
    """The rules as they stand; None after a setting has changed."""

    def _base_settle_difficulty(self, difficulty: float | None) -> None:
        knobs = self.at_difficulty(0.0)
        if difficulty is not None:
            knobs = self._base_knobs_at(difficulty)
            if given := self._base_given(knobs):
                raise ConfigError(
                    f"difficulty sets {', '.join(knobs)}; got difficulty={difficulty} and {given}: "
                    "give one or the other"
                )
        self._base_turn_knobs({} if difficulty is None else knobs)
        self._base_knobs = self._base_active_knobs = {name: getattr(self, name) for name in knobs}

    def _base_given(self, knobs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings among ``knobs`` that the user gave, rather than the registered id.

        The settings of a registered level (Easy, Hard) give way to the difficulty, as they do
        for the one of ``reset``: who asks a level for another difficulty means that one.
        """
        taken = inspect.signature(type(self).__init__).parameters
        defaults = {name: taken[name].default for name in knobs if name in taken}
        given = [
            {name: value for name in defaults if (value := getattr(self, name)) != level.get(name)}
            for level in (defaults, *({**defaults, **row} for row in _levels_of(type(self))))
        ]
        return min(given, key=len)

    def _base_apply_knobs(self, difficulty: float | None) -> None:
        """Set the settings of one episode's difficulty, or go back to the environment's own."""
        self._base_active_knobs = (
            self._base_knobs if difficulty is None else self._base_knobs_at(difficulty)
        )
        self._base_turn_knobs(self._base_active_knobs)

    def _base_turn_knobs(self, knobs: Mapping[str, Any]) -> None:
        for name, value in knobs.items():
            setattr(self, name, value)  # ``vars`` would build a dictionary that slows every step
        self._base_rules_cache = None
        self.check_settings()

    def _base_knobs_at(self, difficulty: float) -> Mapping[str, Any]:
        check_types(type(self), {"difficulty": difficulty})
        difficulty = plain(difficulty)
        if not 0.0 <= difficulty <= 1.0:
            raise ConfigError(f"difficulty must be in [0, 1], got {difficulty}")
        knobs = self.at_difficulty(difficulty)
        if not knobs:
            why = f": {self.no_difficulty}" if self.no_difficulty else ""
            raise ConfigError(f"{type(self).__name__} has no difficulty setting{why}")
        return knobs


def _levels_of(env_class: type) -> list[Mapping[str, Any]]:
    """Return the settings of every registered id of ``env_class``."""
    name = f"{env_class.__module__}:{env_class.__qualname__}"
    return [spec.kwargs for spec in gym.registry.values() if spec.entry_point in (name, env_class)]
