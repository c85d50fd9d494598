"""Difficulty: one number in [0, 1] that stands for several settings of a game.

It is given for all episodes, to the constructor, or for one, to ``reset``. The settings that it
stands for are the game's own (``Game.at_difficulty``).
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym

from llm_gym.core.errors import ConfigError
from llm_gym.core.game import Game
from llm_gym.core.settings import check_range, check_types, plain


def settings_at(game: Game, difficulty: float) -> Mapping[str, Any]:
    """Return the settings of ``game`` at ``difficulty``."""
    check_types(type(game), {"difficulty": difficulty})
    difficulty = plain(difficulty)
    check_range("difficulty", difficulty, 0, 1)
    settings = game.at_difficulty(difficulty)
    if not settings:
        why = f": {game.no_difficulty}" if game.no_difficulty else ""
        raise ConfigError(f"{type(game).__name__} has no difficulty setting{why}")
    return settings


def settings_given(game: Game, names: Iterable[str]) -> dict[str, Any]:
    """Return the settings among ``names`` that the user gave, rather than the registered id.

    The settings of a registered level (Easy, Hard) give way to the difficulty, as they do for
    the one of ``reset``: who asks a level for another difficulty means that one.
    """
    taken = inspect.signature(type(game).__init__).parameters
    defaults = {name: taken[name].default for name in names if name in taken}
    given = [
        {name: value for name in defaults if (value := getattr(game, name)) != level.get(name)}
        for level in (defaults, *({**defaults, **row} for row in _levels_of(type(game))))
    ]
    return min(given, key=len)


def _levels_of(env_class: type) -> list[Mapping[str, Any]]:
    name = f"{env_class.__module__}:{env_class.__qualname__}"
    return [spec.kwargs for spec in gym.registry.values() if spec.entry_point in (name, env_class)]
