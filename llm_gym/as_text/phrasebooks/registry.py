"""Which phrasebook goes with which environment."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import gymnasium as gym

from llm_gym.as_text.phrasebooks.book import Phrasebook
from llm_gym.errors import ConfigError
from llm_gym.legacy.old_gym import inside

_TOY, _CONTROL = "gymnasium.envs.toy_text", "gymnasium.envs.classic_control"
_HERE = "llm_gym.as_text.phrasebooks"

# By class, so that every id of a class is found, and every class that derives from it. Strings,
# so that neither the environments nor their phrasebooks are imported before they are used.
_BOOKS: dict[str, str | type[Phrasebook]] = {
    f"{_TOY}.frozen_lake:FrozenLakeEnv": f"{_HERE}.frozen_lake:FrozenLakeWords",
    f"{_TOY}.cliffwalking:CliffWalkingEnv": f"{_HERE}.cliff_walking:CliffWalkingWords",
    f"{_TOY}.taxi:TaxiEnv": f"{_HERE}.taxi:TaxiWords",
    f"{_TOY}.blackjack:BlackjackEnv": f"{_HERE}.blackjack:BlackjackWords",
    f"{_CONTROL}.cartpole:CartPoleEnv": f"{_HERE}.classic_control:CartPoleWords",
    f"{_CONTROL}.mountain_car:MountainCarEnv": f"{_HERE}.classic_control:MountainCarWords",
    f"{_CONTROL}.acrobot:AcrobotEnv": f"{_HERE}.classic_control:AcrobotWords",
    "gymnasium.envs.box2d.lunar_lander:LunarLander": f"{_HERE}.lunar_lander:LunarLanderWords",
    "minigrid.minigrid_env:MiniGridEnv": f"{_HERE}.minigrid:MiniGridWords",
}


def register_phrasebook(env: str | type[gym.Env[Any, Any]], book: str | type[Phrasebook]) -> None:
    """Use ``book`` for ``env`` from now on, in place of any other.

    Args:
        env: An id (``Maze-v2``; ``Maze`` stands for every version), or a class of environments
            (with all that derive from it), which may be given as ``module:Class``.
        book: A subclass of ``Phrasebook``, which may be given as ``module:Class``.
    """
    if isinstance(env, type):
        env = _path(env)
    if not isinstance(env, str) or not env:
        raise ConfigError(f"a phrasebook is for an id or a class of environments, got {env!r}")
    _BOOKS[env] = book if isinstance(book, str) else _checked(book)


def find_phrasebook(env: gym.Env[Any, Any]) -> type[Phrasebook]:
    """Return the phrasebook for ``env``: by its id, by its class, or the one for all.

    >>> find_phrasebook(gym.make("CartPole-v1")).__name__
    'CartPoleWords'
    >>> find_phrasebook(gym.make("Pendulum-v1")).__name__
    'Phrasebook'
    """
    name = env.spec.id if env.spec is not None else ""
    keys = [name, re.sub(r"-v\d+$", "", name), *map(_path, type(inside(env)).__mro__)]
    for key in keys:
        if key in _BOOKS:
            return load_phrasebook(_BOOKS[key])
    return Phrasebook


def load_phrasebook(book: str | type[Phrasebook]) -> type[Phrasebook]:
    """Return a phrasebook that may be given as ``module:Class``."""
    if not isinstance(book, str):
        return _checked(book)
    module, colon, name = book.partition(":")
    if not colon:
        raise ConfigError(f"a phrasebook is given as a class or as 'module:Class', got {book!r}")
    try:
        return _checked(getattr(import_module(module), name, None))
    except ImportError as error:
        raise ConfigError(f"the phrasebook {book} cannot be imported: {error}") from error


def _checked(book: Any) -> type[Phrasebook]:
    if isinstance(book, type) and issubclass(book, Phrasebook):
        return book
    raise ConfigError(
        f"a phrasebook is a subclass of llm_gym.as_text.phrasebooks.Phrasebook, got {book!r}"
    )


def _path(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
