"""From a model's reply to the results of its calls: what the wrapper and the manager share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_gym.reading.calls import ToolCall
from llm_gym.reading.parsers import ActionParser, Parsed
from llm_gym.tools.definition import Tool, text_definition
from llm_gym.tools.registry import ToolRegistry

MAX_DEPTH = 32
"""Lists and objects inside each other that the arguments of a call may have."""
MAX_VALUES = 10_000
"""Values that the arguments of a call may have in all."""
NO_CALLS_LEFT = "You have no tool calls left; answer without one."


@dataclass(frozen=True)
class ToolResult:
    """A tool call and its result."""

    name: str
    """Empty where the reply could not be read."""
    arguments: dict[str, Any]
    success: bool
    result: str
    """What the model is told: the result, or what went wrong."""

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))  # not ``asdict``, which copies arguments of any depth by recursion


class Ran(NamedTuple):
    """What came of a reply's calls."""

    results: list[ToolResult]
    spent: int
    """Calls that count against a budget."""
    answer: str | None
    """The result of a final tool, such as ``finish``."""


def is_call(parsed: Parsed, registry: ToolRegistry) -> bool:
    """Return whether a reply is for the tools rather than for the environment.

    A problem is: the model meant to call and is told why it could not. A bare action that names
    no tool is a move.
    """
    if parsed.calls and parsed.answer is not None:
        return all(call.name in registry for call in parsed.calls)
    return bool(parsed.calls or parsed.problem)


def run_calls(registry: ToolRegistry, parsed: Parsed, allowed: int | None = None) -> Ran:
    """Run the calls of a reply in order, up to and including a final one.

    Args:
        registry: Runs them.
        parsed: A reply for which ``is_call`` holds.
        allowed: Calls that are left, or None. The first one beyond is answered with a refusal.
            A reply that cannot be read counts as one, a final call as none.
    """
    if parsed.problem:
        if allowed is not None and allowed <= 0:
            return Ran([ToolResult("", {}, False, NO_CALLS_LEFT)], 0, None)
        return Ran([ToolResult("", {}, False, parsed.problem)], 1, None)
    results: list[ToolResult] = []
    spent = 0
    for call in parsed.calls:
        tool = registry.tools.get(call.name)
        final = tool is not None and tool.final
        if allowed is not None and spent >= allowed and not final:
            kept = {} if _excess(call.arguments) else call.arguments
            results.append(ToolResult(call.name, kept, False, NO_CALLS_LEFT))
            break
        spent += not final
        results.append(_run(registry, call))
        if final and results[-1].success:
            return Ran(results, spent, results[-1].result)
    return Ran(results, spent, None)


def feedback(parser: ActionParser, results: Sequence[ToolResult]) -> str:
    """Return what the model reads next: every result, in the parser's own form."""
    return "\n".join(
        parser.render_result(ToolCall(one.name, one.arguments), one.result) for one in results
    )


def _excess(arguments: dict[str, Any]) -> str:
    """Return why ``arguments`` are more than anybody could handle, or nothing."""
    waiting: list[tuple[Any, int]] = [(arguments, 1)]
    values = 0
    while waiting:
        value, depth = waiting.pop()
        inside = list(value.values()) if isinstance(value, dict) else value
        values += len(inside)
        if depth > MAX_DEPTH:
            return f"its arguments may be nested at most {MAX_DEPTH} deep"
        if values > MAX_VALUES:
            return f"its arguments may have at most {MAX_VALUES} values"
        waiting += [(item, depth + 1) for item in inside if isinstance(item, dict | list)]
    return ""


def _run(registry: ToolRegistry, call: ToolCall) -> ToolResult:
    if why := _excess(call.arguments):  # let go of, so that no record has to hold them
        return ToolResult(call.name, {}, False, f"{call.name} was not called: {why}.")
    arguments, problem = _bind(registry, call)
    if problem:
        return ToolResult(call.name, arguments, False, problem)
    return ToolResult(call.name, arguments, *registry.execute_tool(call.name, **arguments))


def _bind(registry: ToolRegistry, call: ToolCall) -> tuple[dict[str, Any], str]:
    """Return the arguments of ``call``, or why there are none.

    Input that came without names goes to the only parameter, or the only one that is required.
    """
    if call.text is None or call.name not in registry:
        return call.arguments, ""
    definition = registry.tools[call.name].definition
    names = definition.required if len(definition.required) == 1 else tuple(definition.properties)
    if len(names) != 1:
        wanted = ", ".join(definition.properties) or "no arguments"
        return {}, f"{call.name} takes {wanted}; give its input as a JSON object."
    return {names[0]: call.text}, ""


class FinishTool(Tool):
    """Ends the use of tools; under ``ToolUse`` the answer is played as the move.

    >>> FinishTool().execute(answer="42")
    '42'
    """

    definition = text_definition("finish", "Give the final answer.", "answer", "The final answer.")
    timeout = None
    final = True

    def execute(self, /, **params: Any) -> str:
        return str(params["answer"])
