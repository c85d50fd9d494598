"""Wrappers whose observations contain the whole episode so far, as text or as chat messages."""

from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium import spaces

from llm_gym.core.infos import Info, Options, find_system_prompt
from llm_gym.core.settings import check_range
from llm_gym.core.spaces import AnyText
from llm_gym.wrappers.base import TextWrapper, longer_text

MAX_CHARS = 32_768


class TranscriptObservation(TextWrapper):
    r"""Show the first observation and the later turns, with their actions.

    The first observation holds the rules and is always shown. If not all turns fit, the oldest
    turns are left out, and a line says how many.

    Args:
        env: Text environment to wrap.
        max_turns: Maximum number of turns to show.
        max_chars: Maximum length of the transcript. The first and the last observation are shown in
            full even if they exceed it.

    Example:
        >>> import llm_gym
        >>> env = TranscriptObservation(gym.make("llm_gym/GuessTheNumber-v0"), max_turns=1)
        >>> first, info = env.reset(seed=0)
        >>> second, *_ = env.step("1")
        >>> second.startswith(first), second[len(first):].splitlines()[2:4]
        (True, ['> 1', 'The number is higher than 1.'])
    """

    def __init__(
        self, env: gym.Env[str, str], max_turns: int | None = None, max_chars: int = MAX_CHARS
    ) -> None:
        check_range("max_turns", max_turns, 1)
        check_range("max_chars", max_chars, 1)
        super().__init__(env)
        self.max_turns, self.max_chars = max_turns, max_chars
        observation = getattr(env.observation_space, "max_length", 0)
        action = getattr(env.action_space, "max_length", 0)
        self.observation_space = longer_text(env, observation + action + max_chars)
        self._first = ""
        self._turns: list[str] = []

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        self._first, info = self.env.reset(seed=seed, options=options)
        self._turns = []
        return self._first, info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._turns.append(f"> {action}\n{observation}")
        return self._shown(), reward, terminated, truncated, info

    def _shown(self) -> str:
        kept: list[str] = []
        chars = len(self._first)
        for turn in reversed(self._turns[-self.max_turns :] if self.max_turns else self._turns):
            chars += len(turn) + 2
            if kept and chars > self.max_chars:
                break
            kept.append(turn)
        left_out = len(self._turns) - len(kept)
        note = [f"[{left_out} earlier turn{'s' * (left_out != 1)} left out]"] if left_out else []
        return "\n\n".join([self._first, *note, *reversed(kept)])


_CHAT_CHARS = 1_000_000
Messages = tuple[dict[str, str], ...]


class ChatObservation(TextWrapper):
    """Show the episode so far as chat messages.

    An observation is a tuple of ``{"role": ..., "content": ...}``: the system prompt if there is
    one, then alternating observations (``user``) and actions (``assistant``).

    Args:
        env: Text environment to wrap.
        system_prompt: Put before the environment's system prompt.
        max_turns: Turns to keep in addition to the system prompt and the first observation.
        render: Makes a string of the messages, such as ``lambda messages:
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)``.
            With it, the environment's spec cannot be written as JSON.

    Example:
        >>> import llm_gym
        >>> env = ChatObservation(gym.make("llm_gym/GuessTheNumber-v0"), "You are clever.")
        >>> messages, info = env.reset(seed=0)
        >>> messages, *_ = env.step("7")
        >>> [message["role"] for message in messages]
        ['system', 'user', 'assistant', 'user']
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        system_prompt: str = "",
        max_turns: int | None = None,
        render: Callable[[list[dict[str, str]]], str] | None = None,
    ) -> None:
        check_range("max_turns", max_turns, 1)
        super().__init__(env)
        self.own_prompt, self.max_turns, self.render_messages = system_prompt, max_turns, render
        self.observation_space: gym.Space[Any] = AnyText(_CHAT_CHARS)
        if render is None:
            text = AnyText(_CHAT_CHARS)
            self.observation_space = spaces.Sequence(spaces.Dict({"role": text, "content": text}))
        self._opening: list[dict[str, str]] = []
        self._later: list[dict[str, str]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages | str, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        prompt = "\n\n".join(filter(None, (self.own_prompt, find_system_prompt(self.env, info))))
        self._opening = [_message("system", prompt)] if prompt else []
        self._opening.append(_message("user", observation))
        self._later = []
        return self._shown(), info

    def step(self, action: str) -> tuple[Messages | str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._later += [_message("assistant", action), _message("user", observation)]
        return self._shown(), reward, terminated, truncated, info

    def _shown(self) -> Messages | str:
        later = self._later[-2 * self.max_turns :] if self.max_turns else self._later
        messages = [dict(message) for message in (*self._opening, *later)]
        return self.render_messages(messages) if self.render_messages else tuple(messages)


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
