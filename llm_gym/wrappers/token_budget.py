"""A number of tokens to write per episode, known to the player."""

from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium as gym

from llm_gym.core.outcome import StopReason
from llm_gym.core.settings import check_range
from llm_gym.core.spaces import AnyText
from llm_gym.wrappers.base import TextWrapper

_NOTE_CHARS = 60


def about_tokens(text: str) -> int:
    """Return a rough number of tokens: one for every four characters, rounded up.

    >>> about_tokens("go north")
    2
    """
    return -(-len(text) // 4)


class TokenBudget(TextWrapper):
    """Limit what the player writes in an episode, and say how much is left of it.

    The step that uses up the budget is played and truncates the episode (``tokens``). Only
    actions count; ``EpisodeLimits`` counts observations too and says nothing to the player.

    Args:
        env: Text environment to wrap.
        max_tokens: Tokens of all actions of an episode together.
        count_tokens: Returns the number of tokens in a text; the default is a rough count that
            needs no tokenizer. It is not JSON, so an environment wrapped with it has no JSON
            spec.
        tell: Whether observations say how many tokens are left.

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
        tell: bool = True,
    ) -> None:
        check_range("max_tokens", max_tokens, 1)
        super().__init__(env)
        self.max_tokens, self.tell = max_tokens, tell
        self._count = count_tokens or about_tokens
        self._left = max_tokens
        inner = getattr(env.observation_space, "max_length", 0)
        self.observation_space = AnyText(inner + _NOTE_CHARS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._left = self.max_tokens
        return self._told(observation), info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._left = max(0, self._left - self._count(action))
        if self._left == 0 and not (terminated or truncated):
            truncated, info = True, {**info, "stop_reason": StopReason.TOKENS}
        if not (terminated or truncated):
            observation = self._told(observation)
        return observation, reward, terminated, truncated, info

    def _told(self, observation: str) -> str:
        return f"{observation}\nTokens left: {self._left}." if self.tell else observation
