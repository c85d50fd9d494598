"""``FormatReward``: a penalty for replies that are not in the requested format."""

import math
import re
from typing import Any, SupportsFloat

import gymnasium as gym

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import Info, Options, reward_terms
from llm_gym.wrappers.base import TextWrapper, longer_text

THINK = "think"
_ASK = "Think first, between <think> and </think>, then give your reply."


def thinks_first(text: str) -> bool:
    r"""Return whether ``text`` is one closed ``<think>`` block followed by a reply.

    A reply may begin inside the block, because some chat templates open the tag in the prompt.

    >>> thinks_first("<think>north?</think>\ngo north"), thinks_first("go north")
    (True, False)
    """
    head, closed, reply = text.partition("</think>")
    once = "<think>" not in head.strip().removeprefix("<think>")
    return bool(closed and once and reply.strip()) and "think>" not in reply


class FormatReward(TextWrapper):
    """Subtract a penalty for every reply that is not in the requested format.

    It is a penalty, because a bonus would reward longer episodes; the best total of a penalty is 0.
    ``info["reward_terms"]`` lists it as ``format``.

    Args:
        env: Text environment to wrap.
        format: ``think`` (one closed ``<think>`` block, then a reply), or a regular expression
            that the whole reply must match; its dot matches line breaks.
        penalty: Subtracted from the reward for every other reply, above 0.
        ask: Instruction before the first observation. None: a standard one for ``think``, none for
            a regular expression.

    Example:
        >>> import llm_gym
        >>> env = FormatReward(gym.make("llm_gym/GuessTheNumber-v0"), penalty=0.1)
        >>> observation, info = env.reset(seed=0)
        >>> _, reward, *_, info = env.step("1")
        >>> reward, info["reward_terms"]
        (-0.1, {'success': 0.0, 'format': -0.1})
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        format: str = THINK,
        penalty: float = 0.1,
        ask: str | None = None,
    ) -> None:
        if not 0.0 < penalty < math.inf:
            raise ConfigError(f"penalty must be above 0, got {penalty}")
        try:
            self._pattern = re.compile(format, re.DOTALL) if format != THINK else None
        except re.error as error:
            raise ConfigError(
                f"format must be 'think' or a regular expression, got {format!r} ({error})"
            ) from error
        super().__init__(env)
        self.penalty = penalty
        self.ask = (_ASK if format == THINK else "") if ask is None else ask
        self.observation_space = longer_text(env, len(self.ask) + 1)

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        return (f"{self.ask}\n{observation}" if self.ask else observation), info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        good = self._pattern.fullmatch(action) if self._pattern else thinks_first(action)
        term = 0.0 if good else -self.penalty
        info = {**info, "reward_terms": {**reward_terms(info), "format": term}}
        return observation, float(reward) + term, terminated, truncated, info
