"""Whether an episode of an arbitrary environment was a success."""

from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import gymnasium as gym

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import stop_reason
from llm_gym.registry.user_code import import_object

Success = Callable[[float, bool, float, Mapping[str, Any]], bool | None]
"""From the sum of rewards, ``terminated``, the last reward and ``info`` to whether it was won."""


def load_success(success: str | Success | None) -> Success | None:
    """Return a function that may be given as ``module:function``."""
    if isinstance(success, str) and ":" in success:
        success = import_object(success)
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
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._total += float(reward)
        if terminated or truncated:
            assert self._success is not None, "given to the constructor"
            won = self._success(self._total, terminated, float(reward), info)
            if won is not None:
                info = {**info, "success": bool(won)}
                info["stop_reason"] = stop_reason(terminated, truncated, info)
        return observation, reward, terminated, truncated, info
