"""``BaseEnvironment``: the shape of an environment before Gymnasium, four values per step."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_gym.core.errors import ConfigError

DEFAULT_MAX_STEPS = 10


@dataclass
class EnvironmentConfig:
    """Settings of a ``BaseEnvironment``.

    Parameters of your own go into a subclass, which is typed and refuses a misspelt name:

    >>> @dataclass
    ... class MazeConfig(EnvironmentConfig):
    ...     rooms: int = 4
    >>> MazeConfig(max_steps=20, rooms=9)
    MazeConfig(max_steps=20, seed=None, rooms=9)
    """

    max_steps: int = DEFAULT_MAX_STEPS
    """Steps after which an episode is over."""
    seed: int | None = None
    """Seed of ``np_random``; None draws one from the operating system."""

    def __post_init__(self) -> None:
        _whole("max_steps", self.max_steps, 1)
        if self.seed is not None:
            _whole("seed", self.seed, 0)


class BaseEnvironment(ABC):
    """An environment that answers a step with observation, reward, done and info.

    ``as_gym`` turns it into a ``gymnasium.Env``, and whatever in llm_gym takes an environment
    does so by itself. The defaults below are set on the class, so that a subclass works even if
    its ``__init__`` or ``reset`` never calls the one here.

    Args:
        config: An object with attributes or a dictionary; ``max_steps`` and ``seed`` are read
            here, the rest is for the subclass, which finds it in ``self.config``.
    """

    config: Any = None
    state: Any = None
    """For the subclass; the base never looks at it."""
    step_count: int = 0
    """Steps taken. A subclass may count them; where it does not, ``as_gym`` does."""
    max_steps: int = DEFAULT_MAX_STEPS
    np_random: np.random.Generator
    """Randomness of this environment alone, seeded by the config and by ``as_gym``."""
    _done: bool = False
    _limit_reached: bool = False

    def __init__(self, config: object | Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.max_steps = _whole("max_steps", setting(config, "max_steps", DEFAULT_MAX_STEPS), 1)
        seed = setting(config, "seed", None)
        self.np_random = np.random.default_rng(None if seed is None else _whole("seed", seed, 0))
        self.state = None
        self.done = False
        self.step_count = 0

    @property
    def done(self) -> bool:
        """Whether the episode is over by the rules of the game. Also called ``_done``."""
        return self._done

    @done.setter
    def done(self, done: bool) -> None:
        self._done = done

    @abstractmethod
    def reset(self) -> str:
        """Begin an episode and return the first observation."""

    @abstractmethod
    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        """Play ``action`` and return observation, reward, done and info."""

    @abstractmethod
    def get_state_description(self) -> str:
        """Return the current state as text."""

    def get_prompt_prefix(self) -> str:
        """Return the system prompt; empty for none."""
        return ""

    def is_done(self) -> bool:
        """Return whether the episode is over, by its rules or because ``max_steps`` are taken."""
        # Noted, because a step may return this: ``as_gym`` has to tell a cut from an end.
        self._limit_reached = not self.done and self.step_count >= self.max_steps
        return bool(self.done) or self._limit_reached


def setting(config: object | Mapping[str, Any] | None, name: str, default: Any) -> Any:
    """Return ``name`` from a config that is an object or a dictionary.

    >>> setting({"max_steps": 5}, "max_steps", 10), setting(None, "max_steps", 10)
    (5, 10)
    """
    if isinstance(config, Mapping):
        return config.get(name, default)
    return getattr(config, name, default)


def _whole(name: str, value: Any, least: int) -> int:
    try:
        if not isinstance(value, bool) and operator.index(value) >= least:
            return operator.index(value)
    except TypeError:
        pass
    raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
