"""Runs the tool calls in a model's reply, for ``ToolUse`` and ``MultiTurnManager``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_gym.reading.calls import ToolCall
from llm_gym.reading.parsers import ActionParser, Parsed
from llm_gym.tools.definition import Tool, text_definition
from llm_gym.tools.registry import ToolRegistry

MAX_DEPTH = 32
"""Maximum nesting depth of a call's arguments."""
MAX_VALUES = 10_000
"""Maximum number of values in a call's arguments."""
NO_CALLS_LEFT = "You have no tool calls left; answer without one."


@dataclass(frozen=True)
class ToolResult:
    """A tool call and its result."""

    name: str
    """Empty if the reply could not be read."""
    arguments: dict[str, Any]
    success: bool
    result: str
    """Text for the model: the result, or what went wrong."""

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))  # not ``asdict``, which copies arguments of any depth by recursion


class CallResults(NamedTuple):
    """The results of a reply's calls."""

    results: list[ToolResult]
    spent: int
    """Calls that count against a budget."""
    answer: str | None
    """The result of a final tool, such as ``finish``."""


def is_call(parsed: Parsed, registry: ToolRegistry) -> bool:
    """Return whether a reply calls tools; otherwise it goes to the environment.

    A reply with a broken call counts as a call: the model is told what is wrong with it. A bare
    action that names no tool is a move.
    """
    if parsed.calls and parsed.answer is not None:
        return all(call.name in registry for call in parsed.calls)
    return bool(parsed.calls or parsed.problem)


def run_calls(registry: ToolRegistry, parsed: Parsed, allowed: int | None = None) -> CallResults:
    """Run the calls of a reply in order, up to and including a final one.

    Args:
        registry: Runs the calls.
        parsed: A reply for which ``is_call`` holds.
        allowed: Calls that are left; None for no limit. The first call beyond it is refused. A
            reply that cannot be read counts as one call, a final call does not count.
    """
    if parsed.problem:
        if allowed is not None and allowed <= 0:
            return CallResults([ToolResult("", {}, False, NO_CALLS_LEFT)], 0, None)
        return CallResults([ToolResult("", {}, False, parsed.problem)], 1, None)
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
            return CallResults(results, spent, results[-1].result)
    return CallResults(results, spent, None)


def feedback(parser: ActionParser, results: Sequence[ToolResult]) -> str:
    """Return the next text for the model: every result, in the parser's form."""
    return "\n".join(
        parser.render_result(ToolCall(one.name, one.arguments), one.result) for one in results
    )


def _excess(arguments: dict[str, Any]) -> str:
    """Return why ``arguments`` are too large or too deep, or ""."""
    stack: list[tuple[Any, int]] = [(arguments, 1)]
    count = 0
    while stack:
        container, depth = stack.pop()
        items = list(container.values()) if isinstance(container, dict) else container
        count += len(items)
        if depth > MAX_DEPTH:
            return f"its arguments may be nested at most {MAX_DEPTH} deep"
        if count > MAX_VALUES:
            return f"its arguments may have at most {MAX_VALUES} values"
        stack += [(item, depth + 1) for item in items if isinstance(item, dict | list)]
    return ""


def _run(registry: ToolRegistry, call: ToolCall) -> ToolResult:
    if why := _excess(call.arguments):  # drop them, so that no record has to hold them
        return ToolResult(call.name, {}, False, f"{call.name} was not called: {why}.")
    arguments, problem = _bind(registry, call)
    if problem:
        return ToolResult(call.name, arguments, False, problem)
    return ToolResult(call.name, arguments, *registry.execute_tool(call.name, **arguments))


def _bind(registry: ToolRegistry, call: ToolCall) -> tuple[dict[str, Any], str]:
    """Return the arguments of ``call``, or why they cannot be used.

    Input without a name goes to the only parameter, or to the only required one.
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
