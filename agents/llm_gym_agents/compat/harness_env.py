"""Environments as the older harness shows them: with a prompt before, and tools in between.

The pool plays them like any other; what is older stays in these wrappers.
"""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from llm_gym.core.infos import find_system_prompt
from llm_gym.core.outcome import StopReason


class ToolCallLike(Protocol):
    """What came of a tool that the model called."""

    @property
    def result(self) -> object:
        """What the model is told."""
        ...


class ToolTurnLike(Protocol):
    """What a tool manager made of a reply.

    ``llm_gym.tools.ToolTurn`` has three more, which are used where they are there: ``step``, what
    an environment returned that the turn was played in; ``answer``, what to play in it otherwise;
    and ``done``.
    """

    @property
    def tool_call(self) -> ToolCallLike | None:
        """None where the reply called no tool."""
        ...


class ToolManager(Protocol):
    """Runs the tools that replies call."""

    def step(self, model_output: str, observation: str) -> ToolTurnLike:
        """Look for a tool call in ``model_output``, a reply to ``observation``, and run it."""
        ...


class Introduced(gym.Wrapper[str, str, str, str]):
    """Says something before the rules and before the first observation.

    Args:
        env: Text environment to wrap.
        system_prompt: Said before that of the environment.
        prompt: Said before the first observation.
        own: Whether ``close`` closes the environment; one that was lent stays open.
    """

    def __init__(
        self, env: gym.Env[str, str], system_prompt: str, prompt: str, *, own: bool
    ) -> None:
        super().__init__(env)
        self.own_prompt, self.prompt, self.own = system_prompt, prompt, own
        self.first = ""
        """The first observation, without the prompt."""

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]  # as gym.Wrapper does
        """That of the environment: the record says what was played, not how it was introduced."""
        return self.env.spec

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode with the prompts."""
        self.first, info = self.env.reset(seed=seed, options=options)
        told = _joined(self.own_prompt, find_system_prompt(self.env, info))
        return _joined(self.prompt, self.first), {**info, "system_prompt": told}

    def close(self) -> None:
        """Close the environment if it is ours."""
        if self.own:
            super().close()


class Assisted(gym.Wrapper[str, str, str, str]):
    """Asks a tool manager about every reply; one that calls a tool is not played."""

    def __init__(self, env: gym.Env[str, str], tools: ToolManager) -> None:
        super().__init__(env)
        self.tools = tools
        self._read = ""

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]  # as gym.Wrapper does
        """That of the environment."""
        return self.env.spec

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode."""
        self._read, info = self.env.reset(seed=seed, options=options)
        return self._read, info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Play ``action``, or run the tools that it calls."""
        turn = self.tools.step(action, self._read)
        self._read, reward, terminated, truncated, info = self._played(action, turn)
        if not (terminated or truncated) and getattr(turn, "done", False):
            # The manager has limits of its own.
            truncated, info = True, {**info, "stop_reason": StopReason.MAX_STEPS}
        return self._read, reward, terminated, truncated, info

    def _played(
        self, reply: str, turn: ToolTurnLike
    ) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        step, called = getattr(turn, "step", None), turn.tool_call
        if called is None or (step is None and getattr(turn, "answer", None) is not None):
            return self.env.step(getattr(turn, "answer", None) or reply)
        calls = [call.to_dict() for call in getattr(turn, "tool_calls", [])]
        if step is None:
            info = {"tool_call": True, "tool_calls": calls}
            return str(called.result), 0.0, False, False, info
        _, reward, terminated, truncated, info = step
        return str(called.result), reward, terminated, truncated, {**info, "tool_calls": calls}


def _joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))
