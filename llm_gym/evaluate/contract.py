"""What every check says and needs: that a rule holds, and that there is a game to look at."""

from typing import Any

import gymnasium as gym

from llm_gym.core.env import TextEnv
from llm_gym.core.errors import ContractError


class DoesNotApply(Exception):
    """A check needs something that the environment does not offer."""


def need(held: bool, sentence: str) -> None:
    """Raise ``ContractError`` with ``sentence`` unless the rule ``held``."""
    if not held:
        raise ContractError(sentence)


def game_of(env: gym.Env[Any, Any]) -> TextEnv:
    """Return ``env`` as the ``TextEnv`` that it is, for checks that need one."""
    if not isinstance(env, TextEnv):
        raise DoesNotApply("needs a TextEnv")
    return env


def player_of(env: gym.Env[Any, Any]) -> TextEnv:
    """Return ``env`` for checks that only ask it for players and for the name of an instance.

    A bridge to another suite has these (``offers_players``) without being a ``TextEnv``.
    """
    return env if getattr(env, "offers_players", False) else game_of(env)  # type: ignore[return-value]
