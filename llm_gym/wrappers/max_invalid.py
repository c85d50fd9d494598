"""An end to unusable replies."""

from typing import Any, SupportsFloat

import gymnasium as gym

from llm_gym.core.errors import ContractError
from llm_gym.core.infos import find_attribute
from llm_gym.core.outcome import StopReason
from llm_gym.core.settings import check_range
from llm_gym.core.spaces import AnyText
from llm_gym.wrappers.base import TextWrapper

_NOTE_CHARS = 100


class MaxInvalid(TextWrapper):
    """End the episode after some unusable replies; the player is told so at the beginning.

    It is a rule that the player knows, so the episode is terminated (``invalid``) and not cut. The
    turns that are left cost what playing on badly would (``quitting_cost`` of the environment).

    Args:
        env: Text environment to wrap; its ``info`` says whether an action was usable in
            ``valid_action``.
        max_invalid: Unusable replies that end the episode.
        in_a_row: Whether a usable reply makes up for those before it.

    Example:
        >>> import llm_gym
        >>> env = MaxInvalid(gym.make("llm_gym/GuessTheNumber-v0"), max_invalid=1)
        >>> observation, info = env.reset(seed=0)
        >>> *_, terminated, truncated, info = env.step("no idea")
        >>> terminated, truncated, str(info["stop_reason"])
        (True, False, 'invalid')
    """

    def __init__(self, env: gym.Env[str, str], max_invalid: int, in_a_row: bool = True) -> None:
        check_range("max_invalid", max_invalid, 1)
        super().__init__(env)
        self.max_invalid, self.in_a_row = max_invalid, in_a_row
        self._invalid = 0
        inner = getattr(env.observation_space, "max_length", 0)
        self.observation_space = AnyText(inner + _NOTE_CHARS)

    @property
    def rule(self) -> str:
        many = f"{self.max_invalid} unusable replies{' in a row' * self.in_a_row}"
        return f"The game ends after {many if self.max_invalid > 1 else 'an unusable reply'}."

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._invalid = 0
        return f"{self.rule}\n{observation}", info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if "valid_action" not in info:
            raise ContractError(
                f"MaxInvalid needs an environment whose info has valid_action; {self.env} has none"
            )
        if not info["valid_action"]:
            self._invalid += 1
        elif self.in_a_row:
            self._invalid = 0
        if self._invalid >= self.max_invalid and not (terminated or truncated):
            terminated, info = True, {**info, "stop_reason": StopReason.INVALID}
            if price := find_attribute(self.env, "quitting_cost"):
                cost = price()
                reward = float(reward) + cost
                info["reward_terms"] = {**info.get("reward_terms", {}), "given_up": cost}
        return observation, reward, terminated, truncated, info
