"""Whether an episode of an arbitrary environment was a success."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.error import ResetNeeded

from llm_gym.core.errors import ActionTypeError, ConfigError
from llm_gym.core.outcome import StopReason, stop_reason

Success = Callable[[float, bool, float, Mapping[str, Any]], bool | None]
"""From the sum of rewards, ``terminated``, the last reward and ``info`` to whether it was won."""


def load_success(success: str | Success | None) -> Success | None:
    """Return a function that may be given as ``module:function``."""
    if isinstance(success, str):
        module, colon, name = success.partition(":")
        try:
            success = getattr(import_module(module), name, None) if colon else None
        except ImportError as error:
            raise ConfigError(f"success={module}:{name} cannot be imported: {error}") from error
        if success is None:
            raise ConfigError(f"success must be a function or 'module:function', got {module!r}")
    if success is not None and not callable(success):
        raise ConfigError(f"success must be a function or 'module:function', got {success!r}")
    return success


class SuccessInfo(gym.Wrapper[Any, Any, Any, Any]):
    """Say in ``info`` whether an episode was a success, for an environment that does not.

    Args:
        env: The environment.
        success: See ``AsText``.
    """

    has_splits = False

    def __init__(self, env: gym.Env[Any, Any], *, success: str | Success) -> None:
        super().__init__(env)
        self._success, self._total = load_success(success), 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._total = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play, and judge where the episode is over."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._total += float(reward)
        if terminated or truncated:
            assert self._success is not None, "given to the constructor"
            won = self._success(self._total, terminated, float(reward), info)
            if won is not None:
                info = {**info, "success": bool(won)}
                info["stop_reason"] = stop_reason(terminated, truncated, info)
        return observation, reward, terminated, truncated, info


def refusal(action: object, stop: StopReason | None) -> Exception:
    """Return why ``action`` cannot be played: it is no text, or there is no episode."""
    if not isinstance(action, str):
        return ActionTypeError(
            f"AsText takes a str action, got {type(action).__name__}; decode token ids before "
            "calling step"
        )
    why = "has not begun" if stop is None else f"is over ({stop})"
    return ResetNeeded(f"the episode {why}; call reset() before step()")
