"""End an episode early: after some turns, tokens or unusable replies."""

from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium as gym

from llm_gym.core.errors import ContractError
from llm_gym.core.infos import Info, Options, find_attribute, reward_terms
from llm_gym.core.outcome import StopReason
from llm_gym.core.settings import check_range
from llm_gym.wrappers.base import TextWrapper, longer_text

_NOTE_CHARS = 100  # what is added to an observation


class EpisodeLimits(TextWrapper):
    """Truncate an episode after ``max_turns`` steps, with ``info["stop_reason"]`` ``max_steps``.

    ``gymnasium.wrappers.TimeLimit`` gives no stop reason. A step that ends the episode by itself is
    returned unchanged.

    Args:
        env: Text environment to wrap.
        max_turns: Steps per episode.

    Example:
        >>> import gymnasium as gym
        >>> import llm_gym
        >>> env = EpisodeLimits(gym.make("llm_gym/GuessTheNumber-v0"), max_turns=1)
        >>> observation, info = env.reset(seed=0)
        >>> *_, terminated, truncated, info = env.step("no idea")
        >>> terminated, truncated, str(info["stop_reason"])
        (False, True, 'max_steps')
    """

    def __init__(self, env: gym.Env[str, str], max_turns: int) -> None:
        check_range("max_turns", max_turns, 1)
        super().__init__(env)
        self.max_turns, self._turns = max_turns, 0

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        self._turns = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._turns += 1
        if self._turns >= self.max_turns and not (terminated or truncated):
            truncated, info = True, {**info, "stop_reason": StopReason.MAX_STEPS}
        return observation, reward, terminated, truncated, info


class MaxInvalid(TextWrapper):
    """Terminate an episode after ``max_invalid`` unusable replies; the first observation says so.

    The player knows this rule, so the episode is terminated (``invalid``) and not truncated. The
    turns that are left cost what bad play would cost (``quitting_cost`` of the environment).

    Args:
        env: Text environment to wrap; its ``info`` must contain ``valid_action``.
        max_invalid: Unusable replies that end the episode.
        in_a_row: Whether a usable reply resets the count.

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
        self.observation_space = longer_text(env, _NOTE_CHARS)

    @property
    def rule(self) -> str:
        many = f"{self.max_invalid} unusable replies{' in a row' * self.in_a_row}"
        return f"The game ends after {many if self.max_invalid > 1 else 'an unusable reply'}."

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
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
                info["reward_terms"] = {**reward_terms(info), "given_up": cost}
        return observation, reward, terminated, truncated, info


def about_tokens(text: str) -> int:
    """Return a rough number of tokens: one for every four characters, rounded up.

    >>> about_tokens("go north")
    2
    """
    return -(-len(text) // 4)


class TokenBudget(TextWrapper):
    """Limit the tokens that the player writes in an episode; observations show how many are left.

    The step that uses up the budget is still played and truncates the episode (``tokens``). Only
    actions count.

    Args:
        env: Text environment to wrap.
        max_tokens: Tokens of all actions of an episode together.
        count_tokens: Returns the number of tokens in a text; the default is a rough count that
            needs no tokenizer. With a function of your own, the environment's spec cannot be
            written as JSON.

    Example:
        >>> import llm_gym
        >>> env = TokenBudget(gym.make("llm_gym/GuessTheNumber-v0"), max_tokens=3)
        >>> _ = env.reset(seed=0)
        >>> observation, _, _, truncated, _ = env.step("1")
        >>> observation.splitlines()[-1], truncated
        ('Tokens left: 2.', False)
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        max_tokens: int,
        count_tokens: Callable[[str], int] | None = None,
    ) -> None:
        check_range("max_tokens", max_tokens, 1)
        super().__init__(env)
        self._count = count_tokens or about_tokens
        self.max_tokens = self._left = max_tokens
        self.observation_space = longer_text(env, _NOTE_CHARS)

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._left = self.max_tokens
        return self._with_note(observation), info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._left = max(0, self._left - self._count(action))
        if self._left == 0 and not (terminated or truncated):
            truncated, info = True, {**info, "stop_reason": StopReason.TOKENS}
        if not (terminated or truncated):
            observation = self._with_note(observation)
        return observation, reward, terminated, truncated, info

    def _with_note(self, observation: str) -> str:
        return f"{observation}\nTokens left: {self._left}."
