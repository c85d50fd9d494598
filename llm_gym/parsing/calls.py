"""Calls in JSON or in tags, in the middle of other text, in linear time.

Python's decoder reads the JSON; ``NaN`` and numbers that overflow are refused, and the number of
attempts is bounded, because a failed one may cost the whole text. ``read_call`` knows the names
that models and APIs give the parts of a call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from llm_gym.errors import ConfigError
from llm_gym.parsing.base import MAX_CALLS, ToolCall, ToolDefinition

_ATTEMPTS = 64  # more than the calls that a reply may have
_OPENINGS = re.compile(r"\{\s*[\"']|\[\s*\{")
_SPACE = re.compile(r"\s*")


class JsonValue(NamedTuple):
    """A JSON value, and where it is in the text."""

    value: Any
    start: int
    end: int


class BrokenJson(NamedTuple):
    """Where something begins that is nearly JSON, and what is wrong with it."""

    start: int
    why: str


def dump(value: object) -> str:
    r"""Return ``value`` as one line of JSON that no parser takes for reasoning.

    >>> print(dump({"tag": "<think>"}))
    {"tag": "<think\u003e"}
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"a call must be made of JSON values: {error}") from error
    return text.replace("think>", "think\\u003e")


def read_json(text: str, start: int = 0) -> JsonValue | BrokenJson:
    """Return the JSON value that begins at ``start``, after spaces.

    >>> read_json(' {"a": 1} and so on')
    JsonValue(value={'a': 1}, start=1, end=9)
    >>> read_json("{'a': 1}").why
    'JSON needs double quotes, at line 1, column 2'
    """
    space = _SPACE.match(text, start)
    begin = space.end() if space else start
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        return BrokenJson(begin, _explain(text, begin, error))
    except RecursionError:
        return BrokenJson(begin, "the JSON is nested too deeply")
    except ValueError as error:  # NaN, or a number of thousands of digits
        return BrokenJson(begin, str(error).split(";")[0])
    return JsonValue(value, begin, end)


def find_json(text: str) -> tuple[list[JsonValue], list[BrokenJson]]:
    """Return the objects and lists of objects in ``text``, and what is nearly one.

    >>> found, broken = find_json('first {"a": 1}, then [{"b": 2}], in a {set}')
    >>> [one.value for one in found], broken
    ([{'a': 1}, [{'b': 2}]], [])
    """
    found: list[JsonValue] = []
    failed: list[BrokenJson] = []
    at = 0
    while len(found) + len(failed) < _ATTEMPTS and (opening := _OPENINGS.search(text, at)):
        read = read_json(text, opening.start())
        if isinstance(read, JsonValue):
            found.append(read)
            at = read.end
        else:
            failed.append(read)
            at = opening.start() + 1
    return found, failed


def _explain(text: str, begin: int, error: json.JSONDecodeError) -> str:
    before = text[begin : error.pos]
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    what = error.msg
    if text[error.pos : error.pos + 1] == "'" or text[error.pos - 1 : error.pos] == "'":
        what = "JSON needs double quotes"
    elif error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        what = f"the JSON is cut off ({error.msg[0].lower()}{error.msg[1:]})"
    return f"{what}, at line {line}, column {column}"


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


_NAME = re.compile(r"<function=([A-Za-z0-9_.-]{1,64})>\s*")
_PARAMETER = re.compile(r"<parameter=([^>\n]{1,200})>")
_CLOSE, _CLOSE_PARAMETER = "</function>", "</parameter>"


def read_function_tag(text: str, start: int) -> tuple[dict[str, Any], int] | str:
    r"""Return the call in the tag at ``start`` and where it ends, or what is wrong with it.

    Values in ``<parameter=...>`` tags are text; the registry reads a number where a number
    belongs.

    >>> read_function_tag("<function=add>\n<parameter=a>\n1\n</parameter>\n</function>", 0)
    ({'name': 'add', 'arguments': {'a': '1'}}, 55)
    >>> read_function_tag('<function=add>{"a": 1}</function>', 0)
    ({'name': 'add', 'arguments': {'a': 1}}, 33)
    """
    name = _NAME.match(text, start)
    if name is None:
        return "the name of the function is broken"
    at = name.end()
    arguments: Any = {}
    if text.startswith("{", at):
        read = read_json(text, at)
        if isinstance(read, BrokenJson):
            return read.why
        arguments, at = read.value, read.end
    else:
        while opening := _PARAMETER.match(text, at):
            end = text.find(_CLOSE_PARAMETER, opening.end())
            if end < 0:
                return f"the parameter {opening[1]} is not closed"
            arguments[opening[1]] = _without_line_breaks(text[opening.end() : end])
            at = _after_space(text, end + len(_CLOSE_PARAMETER))
    at = _after_space(text, at)
    if not text.startswith(_CLOSE, at):
        return f"the function {name[1]} is not closed"
    return {"name": name[1], "arguments": arguments}, at + len(_CLOSE)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _without_line_breaks(value: str) -> str:
    # Exactly one on each side belongs to the format; the others to the value.
    return value.removeprefix("\n").removesuffix("\n")


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
        if isinstance(read, BrokenJson):
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
