"""``MultiTurnManager``: a conversation with tools, turn by turn, without Gymnasium's API.

``ToolUse`` does the same as a wrapper, if other code steps the environment. ``EnvironmentStepTool``
turns the environment into a tool, for models that act only by tool calls.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym

from llm_gym.core.errors import ConfigError
from llm_gym.core.legacy import BaseEnvironment, LegacyEnv, as_gym
from llm_gym.core.outcome import StopReason
from llm_gym.core.settings import check_range
from llm_gym.reading.parsers import ActionParser, get_parser
from llm_gym.tools.calling import ToolResult, feedback, is_call, run_calls
from llm_gym.tools.definition import Tool, ToolError, text_definition
from llm_gym.tools.registry import ToolRegistry


class Step(NamedTuple):
    """What ``env.step`` returned."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


class EnvironmentStepTool(Tool):
    """Plays a move in an environment; the result is the observation.

    Args:
        env: The environment; the caller resets it.
        name: Name of the tool.
        description: Description for the model.

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
        self.definition = text_definition(name, description, "action", "The move.")
        self.bind(env)

    def bind(self, env: gym.Env[str, str] | BaseEnvironment) -> None:
        """Play in ``env`` from now on; its episode must have begun."""
        self.env = as_running_env(env)
        self.last_step: Step | None = None
        """What the last move led to."""

    def execute(self, /, **params: Any) -> str:
        if self.last_step is not None and self.last_step.done:
            raise ToolError("The episode is over.")
        self.last_step = play(self.env, params["action"])
        return self.last_step.observation

    def reset(self) -> None:
        self.last_step = None


def as_running_env(env: gym.Env[str, str] | BaseEnvironment) -> gym.Env[str, str]:
    """Return ``env``, which the caller has reset, as a ``gymnasium.Env``."""
    adapted = as_gym(env)
    if isinstance(env, BaseEnvironment) and isinstance(adapted, LegacyEnv):
        adapted._stop = StopReason.PLAYING  # its reset happened before it was adapted
    return adapted


def play(env: gym.Env[str, str], action: str) -> Step:
    """Play ``action`` in ``env``."""
    observation, reward, terminated, truncated, info = env.step(action)
    return Step(str(observation), float(reward), bool(terminated), bool(truncated), dict(info))


@dataclass
class ToolTurn:
    """One reply of the model, and its result."""

    number: int
    """Counts from 0."""
    observation: str
    """What the model read."""
    output: str
    """What the model wrote."""
    thought: str = ""
    answer: str | None = None
    """Text for the environment or the user, if the reply called no tool."""
    tool_calls: list[ToolResult] = field(default_factory=list)
    tool_call: ToolResult | None = None
    """The call; several calls are joined into one with all results. None for an answer without an
    environment to play it in."""
    step: Step | None = None
    """Result of ``env.step``, if the turn played a move."""
    done: bool = False
    """Whether the episode is over."""

    @property
    def reward(self) -> float:
        return 0.0 if self.step is None else self.step.reward


class MultiTurnManager:
    """Runs the tools that replies call, plays moves, and keeps the history.

    If a reply has calls, the tools run. A reply without a call is an answer: it is played in
    ``env`` or, without ``env``, ends the episode. A final tool such as ``finish`` also gives an
    answer.

    Args:
        registry: The tools.
        parser: The parser that reads the replies, or its name.
        env: The environment for moves; its episode must have begun. An ``EnvironmentStepTool`` in
            the registry plays in it, too.
        max_turns: Replies after which the episode is over.
        max_calls: Calls per episode; later calls are refused with a message.

    >>> from llm_gym.tools import tool
    >>> @tool
    ... def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> manager = MultiTurnManager(ToolRegistry([add]), "json")
    >>> turn = manager.step('{"tool": "add", "args": {"a": 1, "b": 2}}', "What is 1 + 2?")
    >>> turn.tool_call.result
    '3'
    >>> manager.step("It is 3.", turn.tool_call.result).answer
    'It is 3.'
    >>> manager.episode_summary()["tool_calls"]
    {'add': 1}
    """

    def __init__(
        self,
        registry: ToolRegistry,
        parser: ActionParser | str,
        env: gym.Env[str, str] | BaseEnvironment | None = None,
        *,
        max_turns: int | None = None,
        max_calls: int | None = None,
    ) -> None:
        check_range("max_turns", max_turns, 1)
        check_range("max_calls", max_calls, 0)
        self.registry, self.parser = registry, get_parser(parser)
        self.max_turns, self.max_calls = max_turns, max_calls
        self.history: list[ToolTurn] = []
        """Turns of this episode."""
        self._own_env, self._spent = env, 0
        self._bind(env)

    def reset(self, env: gym.Env[str, str] | BaseEnvironment | None = None) -> None:
        """Begin an episode.

        Args:
            env: The environment to play in; None for the one given to the constructor. The caller
                must have reset it.
        """
        self.history, self._spent = [], 0
        self.registry.reset()
        self._bind(self._own_env if env is None else env)

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return bool(self.history) and self.history[-1].done

    def step(
        self, model_output: str, observation: str | tuple[str, dict[str, Any]] = ""
    ) -> ToolTurn:
        """Process a reply; ``observation`` may be the pair that ``env.reset()`` returned."""
        if self.done:
            raise ConfigError("the episode is over; call reset() before the next step")
        read = observation[0] if isinstance(observation, tuple) else observation
        turn = ToolTurn(len(self.history), read, model_output)
        parsed = self.parser.parse(model_output)
        turn.thought = parsed.thought
        if is_call(parsed, self.registry):
            left = None if self.max_calls is None else self.max_calls - self._spent
            steppers = self._steppers()
            for tool in steppers:
                tool.last_step = None
            ran = run_calls(self.registry, parsed, left)
            self._spent += ran.spent
            turn.tool_calls, turn.answer = ran.results, ran.answer
            turn.tool_call = self._join_results(ran.results)
            steps = [tool.last_step for tool in steppers if tool.last_step is not None]
            turn.step = steps[-1] if steps else None
        else:
            turn.answer = parsed.answer or ""
        if turn.answer is not None and self.env is not None:
            turn.step, arguments = play(self.env, turn.answer), {"action": turn.answer}
            turn.tool_call = ToolResult("environment_step", arguments, True, turn.step.observation)
        episode_over = turn.step is not None and turn.step.done
        answered = turn.answer is not None and self.env is None
        turn.done = episode_over or answered or turn.number + 1 == self.max_turns
        self.history.append(turn)
        return turn

    def episode_summary(self) -> dict[str, Any]:
        """Return counts of turns and calls, the total reward, the answer and success."""
        calls = [call for turn in self.history for call in turn.tool_calls]
        steps = [turn.step for turn in self.history if turn.step is not None]
        return {
            "num_turns": len(self.history),
            "num_tool_calls": len(calls),
            "tool_calls": dict(Counter(call.name for call in calls if call.name)),
            "failed_calls": sum(not call.success for call in calls),
            "unreadable_replies": sum(not call.name for call in calls),
            "total_reward": sum(turn.reward for turn in self.history),
            "answer": self.history[-1].answer if self.history else None,
            "success": bool(steps and steps[-1].info.get("success", False)),
            "terminated": bool(steps and steps[-1].terminated),
            "truncated": self.done and not (steps and steps[-1].terminated) and self._is_cut(),
            "done": self.done,
        }

    def _bind(self, env: gym.Env[str, str] | BaseEnvironment | None) -> None:
        self.env = None if env is None else as_running_env(env)
        if self.env is not None:
            for tool in self._steppers():
                tool.bind(self.env)

    def _steppers(self) -> list[EnvironmentStepTool]:
        tools = self.registry.tools.values()
        return [tool for tool in tools if isinstance(tool, EnvironmentStepTool)]

    def _join_results(self, results: list[ToolResult]) -> ToolResult:
        names = ", ".join(one.name for one in results)
        arguments = results[0].arguments if len(results) == 1 else {}
        success = all(one.success for one in results)
        return ToolResult(names, arguments, success, feedback(self.parser, results))

    def _is_cut(self) -> bool:
        last = self.history[-1]
        if last.step is not None and last.step.truncated:
            return True
        return self.max_turns == len(self.history) and (last.answer is None or self.env is not None)
