"""``StateInfo``: adds the state to ``info``, for advantage estimators that compare equal states."""

from typing import Any, SupportsFloat

import gymnasium as gym

from llm_gym.core.infos import Info, Options, find_attribute
from llm_gym.wrappers.base import TextWrapper


class StateInfo(TextWrapper):
    """Add ``state_key`` and ``potential`` of the current state to ``info``.

    ``state_key`` is the result of the environment's ``state_key()``, or else turn number and
    observation. ``potential`` is missing if the game has none, and after the episode's end.

    Args:
        env: Text environment to wrap.

    Example:
        >>> import gymnasium as gym
        >>> import llm_gym
        >>> env = StateInfo(gym.make("llm_gym/TowerOfHanoiEasy-v0"))
        >>> observation, info = env.reset(seed=0)
        >>> info["potential"]
        0.5
        >>> print(gym.make(env.spec))
        <StateInfo<TowerOfHanoiEnv<llm_gym/TowerOfHanoiEasy-v0>>>
    """

    def __init__(self, env: gym.Env[str, str]) -> None:
        super().__init__(env)
        self._turn = 0

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._turn = 0
        return observation, {**info, **self._state(observation)}

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._turn += 1
        if not (terminated or truncated):
            info = {**info, **self._state(observation)}
        return observation, reward, terminated, truncated, info

    def _state(self, observation: str) -> dict[str, Any]:
        key, potential = (find_attribute(self.env, name) for name in ("state_key", "potential"))
        state = {"state_key": key() if callable(key) else f"{self._turn}\n{observation}"}
        try:
            return state | ({"potential": float(potential())} if callable(potential) else {})
        except NotImplementedError:  # a game need not have one
            return state
