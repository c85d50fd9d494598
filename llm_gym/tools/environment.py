"""The environment as a tool: for models that do everything by calling."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym

from llm_gym.core.outcome import StopReason
from llm_gym.legacy import BaseEnvironment, LegacyEnv, as_gym
from llm_gym.tools.definition import Tool, ToolDefinition, ToolError


class Step(NamedTuple):
    """What ``env.step`` returned."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class EnvironmentStepTool(Tool):
    """Plays a move in an environment; the result is the observation.

    Args:
        env: The environment, which its owner resets.
        name: Name of the tool.
        description: What the model is told.

    >>> import llm_gym
    >>> env = gym.make("llm_gym/GuessTheNumber-v0")
    >>> _ = env.reset(seed=0)
    >>> step = EnvironmentStepTool(env)
    >>> step.execute(action="10")[:14]
    'The number is '
    >>> step.last_step.reward
    0.0
    """

    timeout = None  # an environment in a thread of its own would go on after its time is up

    def __init__(
        self,
        env: gym.Env[str, str] | BaseEnvironment,
        name: str = "environment_step",
        description: str = "Play a move in the environment.",
    ) -> None:
        self._definition = ToolDefinition(
            name,
            description,
            {
                "type": "object",
                "properties": {"action": {"type": "string", "description": "The move."}},
                "required": ["action"],
                "additionalProperties": False,
            },
        )
        self.bind(env)

    @property
    def definition(self) -> ToolDefinition:
        return self._definition

    def bind(self, env: gym.Env[str, str] | BaseEnvironment) -> None:
        """Play in ``env`` from now on, in an episode that is under way."""
        self.env = begun(env)
        self.last_step: Step | None = None
        """What the last move led to."""

    def execute(self, /, **params: Any) -> str:
        if self.last_step is not None and (self.last_step.terminated or self.last_step.truncated):
            raise ToolError("The episode is over.")
        self.last_step = play(self.env, params["action"])
        return self.last_step.observation

    def reset(self) -> None:
        self.last_step = None


def begun(env: gym.Env[str, str] | BaseEnvironment) -> gym.Env[str, str]:
    """Return ``env`` as a ``gymnasium.Env`` that takes steps, if its owner has reset it."""
    adapted = as_gym(env)
    if isinstance(env, BaseEnvironment) and isinstance(adapted, LegacyEnv):
        adapted._stop = StopReason.PLAYING  # its reset happened before it was adapted
    return adapted


def play(env: gym.Env[str, str], action: str) -> Step:
    """Play ``action`` in ``env``."""
    observation, reward, terminated, truncated, info = env.step(action)
    return Step(str(observation), float(reward), bool(terminated), bool(truncated), dict(info))
