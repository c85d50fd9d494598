"""The environments of the suite, one row each.

Entry points are strings, so importing this module loads no environment. The level comes before
the version in an id. A change that can move a score makes a new version; the old row stays
until the next minor release.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym


class EnvRow(NamedTuple):
    """One registered configuration of an environment."""

    id: str
    entry_point: str
    kwargs: dict[str, Any] = {}


_GUESS = "llm_gym.envs.guess_the_number:GuessTheNumberEnv"

_LAKE = "llm_gym.envs.frozen_lake:FrozenLakeEnv"
_GAME = "llm_gym.envs.text_game.env:TextGameEnv"

ENVS: tuple[EnvRow, ...] = (
    EnvRow("llm_gym/TextGame-v0", _GAME),
    EnvRow(
        "llm_gym/TextGameEasy-v0",
        _GAME,
        {
            "rooms": 4,
            "items": 2,
            "quest_length": 2,
            "locks": 0,
            "hints": 4,
            "names": 8,
            "style": "terse",
            "max_turns": 16,
        },
    ),
    EnvRow(
        "llm_gym/TextGameHard-v0",
        _GAME,
        {"rooms": 12, "items": 8, "quest_length": 9, "locks": 2, "max_turns": 100},
    ),
    EnvRow("llm_gym/GuessTheNumber-v0", _GUESS),
    # The presets Easy and Hard have the parameters of GEM's, so that results compare.
    EnvRow("llm_gym/GuessTheNumberEasy-v0", _GUESS, {"low": 1, "high": 10, "max_turns": 4}),
    EnvRow("llm_gym/GuessTheNumberHard-v0", _GUESS, {"low": 1, "high": 50, "max_turns": 7}),
    # FrozenLake and Hard have the parameters of TextArena's; Slippery those of Gymnasium's.
    EnvRow("llm_gym/FrozenLake-v0", _LAKE, {"size": 4, "holes": 3, "max_turns": 100}),
    EnvRow("llm_gym/FrozenLakeHard-v0", _LAKE, {"size": 5, "holes": 6, "max_turns": 100}),
    EnvRow("llm_gym/FrozenLakeSlippery-v0", _LAKE, {"slip": 2 / 3, "max_turns": 100}),
    EnvRow("llm_gym/Echo-v0", "llm_gym.envs.echo:EchoEnv"),
    EnvRow("llm_gym/Count-v0", "llm_gym.envs.count:CountEnv"),
    EnvRow("llm_gym/Memory-v0", "llm_gym.envs.memory:MemoryEnv"),
    EnvRow("llm_gym/Dataset-v0", "llm_gym.envs.dataset:DatasetEnv"),
)


def register_envs() -> None:
    """Add every row of ``ENVS`` to the Gymnasium registry. Safe to call twice."""
    for row in ENVS:
        if row.id not in gym.registry:
            gym.register(
                id=row.id,
                entry_point=row.entry_point,
                kwargs=dict(row.kwargs),
                # What these wrappers look for at every step, TextEnv refuses by itself and the
                # tests have checked; without them a light game is a third faster.
                order_enforce=False,
                disable_env_checker=True,
            )
