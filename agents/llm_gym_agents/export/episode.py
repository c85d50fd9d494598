"""One episode as a conversation: what every other trainer is given."""

from __future__ import annotations

import importlib
from typing import Any, Self

import gymnasium as gym

from llm_gym.as_text import ensure_text
from llm_gym.core.outcome import StopReason, stop_reason
from llm_gym.episodes.play import begin
from llm_gym.errors import ConfigError
from llm_gym.registry.plugins import find_spec

Message = dict[str, Any]


class Conversation:
    """An environment that is spoken with; close it, or use it in a ``with`` statement.

    Args:
        env_id: A registered id.
        **kwargs: Settings of the environment.

    >>> talk = Conversation("llm_gym/GuessTheNumber-v0")
    >>> [message["role"] for message in talk.begin(seed=3)]
    ['user']
    >>> talk.answer("2"), talk.reward, talk.done
    ('Yes, the number is 2.', 1.0, True)
    """

    def __init__(self, env_id: str, **kwargs: Any) -> None:
        self.env: gym.Env[str, str] = ensure_text(gym.make(find_spec(env_id), **kwargs))
        self.reward, self.turns, self.done = 0.0, 0, True
        self.stop, self.instance_id = StopReason.PLAYING, ""

    def begin(self, seed: int | None = None, split: str | None = None) -> list[Message]:
        """Begin an episode and return the messages that come before the first reply."""
        beginning = begin(self.env, seed, None if split is None else {"split": split})
        self.reward, self.turns, self.done = 0.0, 0, False
        self.stop, self.instance_id = StopReason.PLAYING, beginning.instance_id or ""
        told = [{"role": "user", "content": beginning.observation}]
        if beginning.system_prompt:
            told.insert(0, {"role": "system", "content": beginning.system_prompt})
        return told

    def answer(self, reply: str) -> str:
        """Play what a model has replied and return what the environment says."""
        if self.done:
            return "The episode is over."
        observation, reward, terminated, truncated, info = self.env.step(reply)
        self.reward += float(reward)
        self.turns += 1
        self.done = bool(terminated or truncated)
        self.stop = stop_reason(terminated, truncated, info)
        return observation

    def close(self) -> None:
        """Give back what the environment holds; what the episode was stays known."""
        self.env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def success(self) -> bool:
        """Whether the episode was won."""
        return self.stop is StopReason.WON


def need(package: str, pip: str) -> Any:
    """Return another package; one sentence where it is missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(
            f"this export needs {package}: {error}. Install it with: pip install {pip}"
        ) from error
