"""Tool calls: their definition, calls as JSON inside other text, and the parser interface.

Python's decoder reads the JSON; ``NaN`` and numbers that overflow are refused. The number of
attempts is bounded, because a failed attempt may scan the whole text. ``read_call`` accepts the
names that models and APIs give the parts of a call.

A parser is pure: the same text gives the same ``Parsed``. It never raises for the text of a model,
reads at most ``MAX_CHARS`` characters, and takes linear time. It reads the output of its ``render``
back exactly. One broken call makes the whole reply a problem: no call of such a reply is run.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llm_gym.core.errors import ConfigError
from llm_gym.reading.markup import own_turn

MAX_CALLS = 32
"""Most calls in one reply."""
_ATTEMPTS = 64  # more than the calls that a reply may have
_TOOL_NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"


class BrokenCall(ValueError):
    """A model tried to call a tool, but the call cannot be read; the message says why."""


@dataclass(frozen=True)
class ToolCall:
    """A tool call that a model wrote. The tool may not exist."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str | None = None
    """Input without a parameter name, as in ReAct; it goes to the only parameter."""


@dataclass(frozen=True)
class ToolDefinition:
    """The description of a tool for a model.

    Args:
        name: 1 to 64 letters, digits, ``_``, ``-`` or ``.``, beginning with a letter or ``_``.
        description: What the tool does, for the model.
        parameters: JSON schema of the arguments: an object with properties.

    >>> ToolDefinition("now", "Tell the time.").schema()["function"]["name"]
    'now'
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(_TOOL_NAME, self.name):
            raise ConfigError(
                "a tool's name must be 1 to 64 letters, digits, '_', '-' or '.', beginning with a "
                f"letter or '_', got {self.name!r}"
            )
        if not isinstance(self.parameters, Mapping) or self.parameters.get("type") != "object":
            raise ConfigError(
                f"the parameters of the tool {self.name} must be a JSON schema such as "
                f'{{"type": "object", "properties": {{}}}}, got {self.parameters!r}'
            )

    @property
    def properties(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.parameters.get("properties", {})
        return found

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(self.parameters.get("required", ()))

    def schema(self) -> dict[str, Any]:
        """Return the definition for the ``tools=`` argument of a chat template."""
        return {"type": "function", "function": self._as_json()}

    def _as_json(self) -> dict[str, Any]:
        parameters = dict(self.parameters)
        return {"name": self.name, "description": self.description, "parameters": parameters}

    def example(self) -> ToolCall:
        """Return an example call of the tool, for the instructions."""
        return ToolCall(self.name, {key: _example(one) for key, one in self.properties.items()})


def _example(schema: Any) -> Any:
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    kinds = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}
    return kinds.get(schema.get("type", "string"), "...")


def list_tools(tools: Sequence[ToolDefinition]) -> str:
    """Return a line of JSON for each tool."""
    return "\n".join(dump(tool._as_json()) for tool in tools)


# --- JSON ----------------------------------------------------------------------------------------

_OPENINGS = re.compile(r"\{\s*[\"']|\[\s*\{")
_SPACE = re.compile(r"\s*")


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


def skip(text: str, at: int, pattern: re.Pattern[str] = _SPACE) -> int:
    """Return the index after the spaces at ``at``, or after a match of ``pattern``."""
    found = pattern.match(text, at)
    return found.end() if found else at


def read_json(text: str, start: int = 0) -> tuple[Any, int]:
    """Return the JSON value that begins at ``start``, after spaces, and where it ends.

    >>> read_json(' {"a": 1} and so on')
    ({'a': 1}, 9)
    >>> read_json("{'a': 1}")
    Traceback (most recent call last):
    llm_gym.reading.calls.BrokenCall: JSON needs double quotes, at line 1, column 2
    """
    start = skip(text, start)
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise BrokenCall(_explain(text, start, error)) from None
    except RecursionError:
        raise BrokenCall("the JSON is nested too deeply") from None
    except ValueError as error:  # NaN, or a number of thousands of digits
        raise BrokenCall(str(error).split(";")[0]) from None


def find_json(text: str) -> list[tuple[int, Any]]:
    """Return the objects and lists of objects in ``text``, each with its index.

    Raises ``BrokenCall`` for text that is nearly a call.

    >>> find_json('first {"a": 1}, then [{"b": 2}], in a {set}')
    [(6, {'a': 1}), (21, [{'b': 2}])]
    """
    found: list[tuple[int, Any]] = []
    at = 0
    for _ in range(_ATTEMPTS):
        if (opening := _OPENINGS.search(text, at)) is None:
            break
        try:
            value, at = read_json(text, opening.start())
        except BrokenCall:
            if looks_like_call(text, opening.start()):
                raise
            at = opening.start() + 1
        else:
            found.append((opening.start(), value))
    return found


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

# --- from values to calls ------------------------------------------------------------------------

_NAMES = ("name", "tool", "tool_name", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "params", "input", "action_input", "tool_input")
_TEXT_INPUTS = ("input", "action_input", "tool_input")
_BESIDE = {"id", "type", "index", "thought"}
_LOOKS_LIKE_ONE = re.compile(
    rf"<function=|[\"'](?:{'|'.join((*_NAMES, *_ARGUMENTS))}|tool_calls)[\"']\s*:"
)


def read_call(value: Any) -> ToolCall | None:
    """Return the call in a JSON value, or None if it is none.

    >>> read_call({"name": "add", "arguments": {"a": 1}})
    ToolCall(name='add', arguments={'a': 1}, text=None)
    >>> read_call({"type": "function", "function": {"name": "add", "arguments": "{}"}})
    ToolCall(name='add', arguments={}, text=None)
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
        if given == "arguments":
            raise BrokenCall("the name is missing")
        return None
    name = value[key].strip()
    if given is None:
        # The JSON action format writes a move as {"action": "go north"}.
        alone = key != "action" and value.keys() <= {key, *_BESIDE}
        return ToolCall(name) if alone and name else None
    if not name:
        raise BrokenCall("the name is empty")
    return _with_arguments(name, given, value[given])


def _with_arguments(name: str, key: str, given: Any) -> ToolCall:
    if isinstance(given, str):
        if key in _TEXT_INPUTS:
            return ToolCall(name, text=given)
        try:
            given, _ = read_json(given)
        except BrokenCall as error:
            raise BrokenCall(f"{key} holds broken JSON: {error}") from None
    elif given is None:
        given = {}
    if not isinstance(given, dict):
        raise BrokenCall(f"{key} must be a JSON object")
    return ToolCall(name, given)


def read_calls(values: Iterable[Any]) -> tuple[ToolCall, ...]:
    """Return the calls in ``values``, lists included."""
    flat = (one for value in values for one in (value if isinstance(value, list) else [value]))
    calls = tuple(call for value in flat if (call := read_call(value)) is not None)
    if len(calls) > MAX_CALLS:
        raise BrokenCall(f"there are more than {MAX_CALLS} calls")
    return calls


def looks_like_call(text: str, start: int) -> bool:
    """Return whether the text at ``start`` was meant to be a call.

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


# --- parsers -------------------------------------------------------------------------------------

MAX_CHARS = 1_000_000


class Parsed(NamedTuple):
    """The content of a reply: calls, an answer or a problem.

    One of the three is set, with one exception: a bare ReAct action (``Action: north``) is both,
    a call if there is a tool of that name and otherwise a move.
    """

    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    """The part of a reply without calls that is for the environment or the user."""
    thought: str = ""
    problem: str = ""
    """Why the reply cannot be used, in words for the model."""


class ActionParser(ABC):
    """Reads the calls in a model's reply, and writes them."""

    name: str
    """Name for ``get_parser``."""
    how: str = ""
    """The right form of a call, for a model that wrote a broken one."""

    def parse(self, text: str) -> Parsed:
        """Return the calls, the answer or the problem in ``text``. Reasoning is ignored."""
        if len(text) > MAX_CHARS:
            return Parsed(problem=f"Your reply is longer than {MAX_CHARS} characters.")
        try:
            return self.read(own_turn(text))
        except BrokenCall as why:
            return Parsed(problem=f"I could not read your tool call: {why}. {self.how}")

    def render(self, calls: Sequence[ToolCall], thought: str = "") -> str:
        """Return a reply with ``calls``, which ``parse`` reads back exactly.

        Raises ``ConfigError`` for text that the format cannot express, such as a thought that would
        be read as a call.
        """
        text = self.write(tuple(calls), thought)
        return self._read_back(text, Parsed(tuple(calls), None, thought))

    def render_answer(self, answer: str) -> str:
        """Return a reply without a call, which ``parse`` reads back exactly."""
        return self._read_back(self.write_answer(answer), Parsed(answer=answer))

    def _read_back(self, text: str, meant: Parsed) -> str:
        if self.parse(text) != meant:
            raise ConfigError(
                f"the {self.name} format cannot say this so that it is read back: {meant!r:.400}"
            )
        return text

    def render_result(self, call: ToolCall, result: str) -> str:
        """Return the result of ``call`` as the model reads it."""
        return result

    def instructions(self, tools: Sequence[ToolDefinition]) -> str:
        """Return how to call ``tools``, for the rules; empty if there are none."""
        if not tools:
            return ""
        how = self.tell(tools[0].example())
        return f"You may call these tools:\n{list_tools(tools)}\nTo call one, reply {how}"

    # --- what a format defines -----------------------------------------------------------

    @abstractmethod
    def read(self, text: str) -> Parsed:
        """Parse ``text``, or raise ``BrokenCall``.

        The length of ``text`` is bounded, and it has no reasoning.
        """

    @abstractmethod
    def write(self, calls: tuple[ToolCall, ...], thought: str) -> str:
        """Return a reply with ``calls``."""

    def write_answer(self, answer: str) -> str:
        """Return a reply without a call."""
        return answer

    @abstractmethod
    def tell(self, call: ToolCall) -> str:
        """Return how to reply with a call such as ``call``, and how to answer."""
