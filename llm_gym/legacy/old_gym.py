"""Environments in the shape of ``gym`` 0.21: ``reset`` returns one value, ``step`` four.

Thousands of them were written before Gymnasium. They derive from a package that need not be
installed, or from nothing at all, so they are known by what they have: ``reset``, ``step`` and,
mostly, spaces. Those of ``gym`` 0.26, with five values, are understood as well.

Shimmy's converters are not used: they import the ``gym`` package, which does not build on a current
Python, and they know neither environments without spaces nor those of text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import Space, spaces

from llm_gym.core.spaces import AnyText
from llm_gym.errors import ConfigError, ContractError

MAX_CHARS = 1_000_000
_CUT = "TimeLimit.truncated"  # where gym's TimeLimit noted that it cut the episode
_PICTURES = ("ansi", "rgb_array")


class OldGymEnv(gym.Env[Any, Any]):
    """An environment of ``gym`` 0.21 behind Gymnasium's interface; ``as_gym`` makes it.

    ``done`` is ``terminated``, unless ``info["TimeLimit.truncated"]`` says that it is a cut.
    ``reset(seed=...)`` goes to a ``reset`` that takes a seed, or else to ``seed()``. Spaces of the
    ``gym`` package become Gymnasium's; an environment without spaces is taken to be one of text.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 30}

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.observation_space = convert_space(getattr(environment, "observation_space", None))
        self.action_space = convert_space(getattr(environment, "action_space", None))
        modes = (getattr(environment, "metadata", None) or {}).get("render.modes", ())
        self.render_mode = next((mode for mode in _PICTURES if mode in modes), None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        old, name = self.environment, type(self.environment).__name__
        taken = _parameters(old.reset)
        given: dict[str, Any] = {}
        if seed is not None and "seed" in taken:
            given["seed"] = seed
        elif seed is not None and callable(reseed := getattr(old, "seed", None)):
            reseed(seed)
        if options:
            if "options" not in taken:
                raise ConfigError(f"{name}.reset takes no options, got {sorted(options)}")
            given["options"] = options
        result = old.reset(**given)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result  # as gym 0.26 has it
        return result, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play ``action``."""
        result = self.environment.step(action)
        if not isinstance(result, tuple) or len(result) not in (4, 5):
            given = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
            raise ContractError(
                f"{type(self.environment).__name__}.step must return (observation, reward, done, "
                f"info), got {given}"
            )
        if len(result) == 5:
            observation, reward, terminated, truncated, info = result
            return observation, float(reward), bool(terminated), bool(truncated), dict(info or {})
        observation, reward, done, info = result
        info = dict(info or {})
        cut = bool(done) and bool(info.get(_CUT, False))
        return observation, float(reward), bool(done) and not cut, cut, info

    def render(self) -> Any:
        """Return the environment as text or as a picture, where it can be had."""
        if self.render_mode is None:
            return None
        frame = self.environment.render(mode=self.render_mode)
        # Text was often returned as a file to read.
        return frame.getvalue() if callable(getattr(frame, "getvalue", None)) else frame

    def close(self) -> None:
        """Close the environment, if it has something to close."""
        if callable(close := getattr(self.environment, "close", None)):
            close()

    def __str__(self) -> str:
        return f"<OldGymEnv<{type(self.environment).__name__}>>"


def inside(env: gym.Env[Any, Any]) -> Any:
    """Return what somebody wrote: the environment under all wrappers and adapters."""
    bare = env.unwrapped
    return bare.environment if isinstance(bare, OldGymEnv) else bare


def is_old_gym(thing: object) -> bool:
    """Return whether ``thing`` is an environment, or a class of them, in the shape of ``gym``."""
    kind = thing if isinstance(thing, type) else type(thing)
    if issubclass(kind, gym.Env):
        return False
    return all(callable(getattr(kind, name, None)) for name in ("reset", "step"))


def convert_space(space: Any) -> Space[Any]:
    """Return a space of the old ``gym`` package as Gymnasium's; None is text.

    >>> convert_space(spaces.Discrete(3))
    Discrete(3)
    >>> convert_space(None)
    AnyText(1000000)
    """
    if space is None:
        return AnyText(MAX_CHARS)
    if isinstance(space, Space):
        return space
    for kind in type(space).__mro__:
        if kind.__name__ in _CONVERTERS:
            return _CONVERTERS[kind.__name__](space)
    raise ConfigError(
        f"as_gym knows the spaces {', '.join(_CONVERTERS)} of the gym package, got {space!r}"
    )


_CONVERTERS: Mapping[str, Callable[[Any], Space[Any]]] = {
    "Discrete": lambda old: spaces.Discrete(int(old.n), start=int(getattr(old, "start", 0))),
    "Box": lambda old: spaces.Box(np.asarray(old.low), np.asarray(old.high), dtype=old.dtype.type),
    "MultiDiscrete": lambda old: spaces.MultiDiscrete(np.asarray(old.nvec)),
    "MultiBinary": lambda old: spaces.MultiBinary(old.n),
    "Dict": lambda old: spaces.Dict({key: convert_space(part) for key, part in old.spaces.items()}),
    "Tuple": lambda old: spaces.Tuple([convert_space(part) for part in old.spaces]),
}


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function of C code need not tell
        return {}
