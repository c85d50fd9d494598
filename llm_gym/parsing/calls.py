"""A call as a JSON object, under the names that models and APIs give its parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from llm_gym.parsing.base import MAX_CALLS, ToolCall
from llm_gym.parsing.definition import ToolDefinition
from llm_gym.parsing.json_text import Broken, dump, read_json

_NAMES = ("name", "tool", "tool_name", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "params", "input", "action_input", "tool_input")
_TEXT_INPUTS = ("input", "action_input", "tool_input")
_BESIDE = {"id", "type", "index", "thought"}
_LOOKS_LIKE_ONE = re.compile(rf"[\"'](?:{'|'.join((*_NAMES, *_ARGUMENTS))})[\"']\s*:")


def read_call(value: Any) -> ToolCall | str | None:
    """Return the call in a JSON value, why it is a broken one, or None if it is none.

    >>> read_call({"name": "add", "arguments": {"a": 1}})
    ToolCall(name='add', arguments={'a': 1}, text=None)
    >>> read_call({"type": "function", "function": {"name": "add", "arguments": "{}"}})
    ToolCall(name='add', arguments={}, text=None)
    >>> read_call({"name": "add", "arguments": [1]})
    'arguments must be a JSON object'
    >>> read_call({"name": "Ada", "age": 36}) is None
    True
    """
    if not isinstance(value, dict):
        return None
    if isinstance(inner := value.get("function"), dict):
        return read_call(inner)
    key = next((key for key in _NAMES if isinstance(value.get(key), str)), None)
    given = next((key for key in _ARGUMENTS if key in value), None)
    if key is None:
        return "the name is missing" if given == "arguments" else None
    name = value[key].strip()
    if given is None:
        # {"action": "go north"} is how an environment's own JSON format writes a move.
        alone = key != "action" and value.keys() <= {key, *_BESIDE}
        return ToolCall(name) if alone and name else None
    if not name:
        return "the name is empty"
    return _with_arguments(name, given, value[given])


def _with_arguments(name: str, key: str, given: Any) -> ToolCall | str:
    if given is None:
        return ToolCall(name)
    if isinstance(given, str):
        if key in _TEXT_INPUTS:
            return ToolCall(name, text=given)
        read = read_json(given)
        if isinstance(read, Broken):
            return f"{key} holds broken JSON: {read.why}"
        given = read.value
    return ToolCall(name, given) if isinstance(given, dict) else f"{key} must be a JSON object"


def read_calls(values: Iterable[Any]) -> list[ToolCall] | str:
    """Return the calls in ``values``, lists included, or why one of them is broken."""
    calls: list[ToolCall] = []
    for value in values:
        for one in value if isinstance(value, list) else [value]:
            call = read_call(one)
            if isinstance(call, str):
                return call
            if call is not None:
                calls.append(call)
    return calls if len(calls) <= MAX_CALLS else f"there are more than {MAX_CALLS} calls"


def looks_like_call(text: str, start: int) -> bool:
    """Return whether what begins at ``start`` was meant to be a call.

    >>> looks_like_call("{'tool': 'add'", 0), looks_like_call("{'city': 'Rome'", 0)
    (True, False)
    """
    return _LOOKS_LIKE_ONE.search(text, start, start + 300) is not None


def write_call(call: ToolCall, name: str = "name", arguments: str = "arguments") -> str:
    """Return ``call`` as a JSON object.

    >>> write_call(ToolCall("add", {"a": 1}))
    '{"name": "add", "arguments": {"a": 1}}'
    """
    return dump({name: call.name, arguments: call.arguments})


def example_call(tools: Sequence[ToolDefinition]) -> ToolCall:
    """Return a call of the first tool, for the instructions."""
    first = tools[0]
    return ToolCall(first.name, {key: _example(schema) for key, schema in first.properties.items()})


def list_tools(tools: Sequence[ToolDefinition]) -> str:
    """Return a line of JSON for each tool."""
    return "\n".join(
        dump({"name": t.name, "description": t.description, "parameters": dict(t.parameters)})
        for t in tools
    )


def _example(schema: Any) -> Any:
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    kinds = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}
    return kinds.get(schema.get("type", "string"), "...")
