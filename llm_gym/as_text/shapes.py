"""What ``reset`` and ``step`` of somebody's environment must return, said where they do not."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from llm_gym.errors import ContractError

_RESET = "observation, info"
_STEP = "observation, reward, terminated, truncated, info"


def of_reset(env: gym.Env[Any, Any], given: Any) -> tuple[Any, dict[str, Any]]:
    """Return the two values of ``reset``."""
    if type(given) is not tuple or len(given) != 2:
        raise _misshapen(env, "reset", _RESET, given)
    _check_info(env, "reset", given[1])
    return given


def of_step(env: gym.Env[Any, Any], given: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    """Return the five values of ``step``."""
    if type(given) is not tuple or len(given) != 5:
        raise _misshapen(env, "step", _STEP, given)
    _check_info(env, "step", given[4])
    return given


def _check_info(env: gym.Env[Any, Any], method: str, info: Any) -> None:
    if not isinstance(info, dict):
        raise ContractError(
            f"{type(env.unwrapped).__name__}.{method} must return a dictionary as info, got "
            f"{info!r:.100}"
        )


def _misshapen(env: gym.Env[Any, Any], method: str, names: str, given: Any) -> ContractError:
    count = f"{len(given)} values" if isinstance(given, tuple) else f"one {type(given).__name__}"
    return ContractError(
        f"{type(env.unwrapped).__name__}.{method} must return ({names}), got {count}; an "
        "environment in the shape of gym 0.21 is adapted if it does not derive from gymnasium.Env"
    )
