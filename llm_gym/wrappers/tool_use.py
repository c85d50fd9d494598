"""``ToolUse``: adds tools to any text environment."""

from collections.abc import Iterable
from typing import Any, SupportsFloat

import gymnasium as gym

from llm_gym.core.infos import Info, Options, find_system_prompt, reward_terms
from llm_gym.core.settings import check_range
from llm_gym.reading.calls import MAX_CALLS
from llm_gym.reading.parsers import ActionParser, get_parser
from llm_gym.tools.calling import CallResults, feedback, is_call, run_calls
from llm_gym.tools.registry import ToolRegistry, ToolSource, as_registry
from llm_gym.wrappers.base import TextWrapper, longer_text

MAX_TOOL_CALLS = 10
_MARKS_CHARS = 100  # what a parser puts around a result


class ToolUse(TextWrapper):
    r"""Let the player of a text environment call tools between its moves.

    A reply that calls tools is a step of its own: the observation is the result of the tools, and
    the environment is not stepped, so the call uses none of its turns. A reply without a call goes
    to the environment. The tool ``finish`` plays its answer as the move. If a call cannot be read
    or fails, the observation says why, and the call counts. A call over the budget, or a ``finish``
    that fails, reaches the environment as an empty reply and costs as much as an unusable reply.

    Every ``info`` gains ``tool_calls`` (a list with ``name``, ``arguments``, ``success`` and
    ``result``) and ``tool_calls_left``; ``reward_terms`` lists the costs.

    Args:
        env: Text environment to wrap.
        tools: A registry, or a list of tools: objects, functions, or names with settings as
            ``as_registry`` takes them. Only names keep the environment's spec writable as JSON.
        parser: The parser that reads the calls, or its name.
        max_calls: Calls per episode; None for no limit.
        call_cost: Subtracted from the reward for every call.
        describe: Whether the rules list the tools and how to call them. Turn it off if the chat
            template gets ``tool_schemas``.

    Example:
        >>> import gymnasium as gym
        >>> import llm_gym
        >>> def half(number: int) -> int:
        ...     '''Halve a number, rounding down.'''
        ...     return number // 2
        >>> env = ToolUse(gym.make("llm_gym/GuessTheNumber-v0"), [half], "react")
        >>> observation, info = env.reset(seed=0)
        >>> env.step("Action: half\nAction Input: 20")[0]
        'Observation: 10'
        >>> env.step("Final Answer: 10")[0][:14]
        'The number is '
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        tools: ToolRegistry | ToolSource | Iterable[ToolSource],
        parser: ActionParser | str = "hermes",
        *,
        max_calls: int | None = MAX_TOOL_CALLS,
        call_cost: float = 0.0,
        describe: bool = True,
    ) -> None:
        tools = tools if isinstance(tools, ToolRegistry) else _listed(tools)
        super().__init__(env)
        self._saved_kwargs["tools"] = tools
        check_range("max_calls", max_calls, 0)
        check_range("call_cost", call_cost, 0)
        self.registry, self.parser = as_registry(tools), get_parser(parser)
        self.max_calls, self.call_cost, self.describe = max_calls, call_cost, describe
        self._text = self._instructions() if describe else ""
        results = MAX_CALLS * (self.registry.max_result_chars + _MARKS_CHARS)
        self.observation_space = longer_text(env, max(len(self._text) + 2, results))
        self._left = max_calls
        self._playing = False
        self._info: dict[str, Any] = {}

    @property
    def tool_schemas(self) -> list[dict[str, Any]]:
        return self.registry.schemas()

    @property
    def system_prompt(self) -> str:
        """The environment's system prompt, if it has one, followed by the tools."""
        inner = find_system_prompt(self.env)
        return _joined(inner, self._text) if inner else ""

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        self.registry.reset()
        self._left, self._playing = self.max_calls, True
        prompt = info.get("system_prompt")
        if prompt and isinstance(prompt, str):  # an environment of others may say anything there
            info = {**info, "system_prompt": _joined(prompt, self._text)}
        else:
            observation = _joined(self._text, observation)
        self._info = {key: info[key] for key in info if key != "system_prompt"}
        return observation, self._with_calls(info, None)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        if not self._playing or not isinstance(action, str):
            return self.env.step(action)  # the environment says what is wrong with that
        parsed = self.parser.parse(action)
        if not is_call(parsed, self.registry):
            return self._play(action if parsed.answer is None else parsed.answer, None)
        ran = run_calls(self.registry, parsed, self._left)
        if self._left is not None:
            self._left -= ran.spent
        if ran.answer is not None:
            return self._play(ran.answer, ran)
        if ran.spent == 0:
            step = self._play("", ran)
            why = "\n".join(one.result for one in ran.results)
            return (f"{why}\n{step[0]}", *step[1:])
        terms = self._costs(ran)
        info = {
            **self._info,
            "move": None,
            "valid_action": all(one.success for one in ran.results),
            "reward_terms": terms,
        }
        text = feedback(self.parser, ran.results)
        return text, float(sum(terms.values())), False, False, self._with_calls(info, ran)

    def close(self) -> None:
        self.registry.close()
        super().close()

    def _play(
        self, action: str, ran: CallResults | None
    ) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._info, self._playing = info, not (terminated or truncated)
        if terms := self._costs(ran):
            info = {**info, "reward_terms": {**reward_terms(info), **terms}}
            reward = float(reward) + sum(terms.values())
        return observation, reward, terminated, truncated, self._with_calls(info, ran)

    def _costs(self, ran: CallResults | None) -> dict[str, float]:
        return {"tool_calls": -self.call_cost * ran.spent} if ran and self.call_cost else {}

    def _with_calls(self, info: dict[str, Any], ran: CallResults | None) -> dict[str, Any]:
        calls = [] if ran is None else [one.to_dict() for one in ran.results]
        return {**info, "tool_calls": calls, "tool_calls_left": self._left}

    def _instructions(self) -> str:
        parts = [self.parser.instructions(self.registry.definitions)]
        if self.max_calls is not None:
            parts.append(f"You may make {self.max_calls} call{'s' * (self.max_calls != 1)}.")
        if self.call_cost:
            parts.append(f"Each call costs {self.call_cost:g} points.")
        return "\n".join(filter(None, parts))


def _listed(tools: Any) -> Any:
    """Return ``tools`` as the spec stores them: an iterator becomes a list."""
    single = isinstance(tools, str | dict) or callable(tools) or not isinstance(tools, Iterable)
    return tools if single else list(tools)


def _joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))
