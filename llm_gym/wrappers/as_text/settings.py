"""The settings of ``AsText`` and their checks, and the types of its results."""

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from llm_gym.core.errors import ConfigError, ContractError
from llm_gym.core.infos import Info, Options
from llm_gym.core.outcome import stop_reason
from llm_gym.registry.user_code import import_object


def of_reset(env: gym.Env[Any, Any], given: Any) -> tuple[Any, dict[str, Any]]:
    """Return the two values of ``reset``."""
    observation, info = _shaped(env, "reset", "observation, info", given)
    return observation, info


def of_step(env: gym.Env[Any, Any], given: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    """Return the five values of ``step``."""
    names = "observation, reward, terminated, truncated, info"
    observation, reward, terminated, truncated, info = _shaped(env, "step", names, given)
    if not isinstance(reward, Real):
        reward = _one_number(env, reward)
    return observation, reward, terminated, truncated, info


def _one_number(env: gym.Env[Any, Any], reward: Any) -> float:
    values, who = np.asarray(reward), type(env.unwrapped).__name__
    if values.size > 1:
        raise ContractError(
            f"{who} pays a vector of {values.size} rewards; wrap it in one that pays a single "
            "number, such as mo_gymnasium.wrappers.LinearReward"
        )
    if values.size == 0 or values.dtype.kind not in "biuf":
        raise ContractError(f"the reward of {who} must be a number, got {reward!r:.100}")
    return float(values.item())


def _shaped(env: gym.Env[Any, Any], method: str, names: str, given: Any) -> tuple[Any, ...]:
    """Return ``given`` if it is a tuple of these values that ends with a dictionary."""
    count = f"{len(given)} values" if isinstance(given, tuple) else f"one {type(given).__name__}"
    if type(given) is not tuple or len(given) != len(names.split(", ")):
        expected = f"({names}), got {count}"
    elif not isinstance(given[-1], dict):
        expected = f"a dictionary as info, got {given[-1]!r:.100}"
    else:
        return given
    raise ContractError(f"{type(env.unwrapped).__name__}.{method} must return {expected}")


Success = Callable[[float, bool, float, Mapping[str, Any]], bool | None]
"""Decides whether an episode was won, from return, ``terminated``, last reward and ``info``."""


def load_success(success: str | Success | None) -> Success | None:
    """Return a function that may be given as ``module:function``."""
    if isinstance(success, str) and ":" in success:
        success = import_object(success)
    if success is not None and not callable(success):
        raise ConfigError(f"success must be a function or 'module:function', got {success!r}")
    return success


class SuccessInfo(gym.Wrapper[Any, Any, Any, Any]):
    """Add ``success`` to the ``info`` of an environment that lacks it."""

    has_splits = False

    def __init__(self, env: gym.Env[Any, Any], *, success: str | Success) -> None:
        super().__init__(env)
        self._success, self._total = load_success(success), 0.0

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[Any, Info]:
        self._total = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        played = of_step(self.env, self.env.step(action))
        observation, reward, terminated, truncated, info = played
        self._total += float(reward)
        if terminated or truncated:
            assert self._success is not None, "given to the constructor"
            won = self._success(self._total, terminated, float(reward), info)
            if won is not None:
                info = {**info, "success": bool(won)}
                info["stop_reason"] = stop_reason(terminated, truncated, info)
        return observation, reward, terminated, truncated, info
