"""The formats in which models were trained to call functions: a reader and a writer for each.

A reader returns ``Parsed``; a reply without a call is an answer as a whole. One broken call
makes the whole reply a problem: running half of what a model asked for helps nobody, and reading
stops at the first failure, which keeps it linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llm_gym.errors import ConfigError
from llm_gym.parsing.base import MAX_CALLS, ActionParser, Parsed, ToolCall, ToolDefinition, broken
from llm_gym.parsing.calls import (
    BrokenJson,
    dump,
    example_call,
    list_tools,
    looks_like_call,
    read_calls,
    read_function_tag,
    read_json,
    write_call,
)

_SPACE = re.compile(r"\s*")
_BETWEEN = re.compile(r"[\s;,]*")
_MISTRAL_NAME = re.compile(
    r"\s*([A-Za-z_][A-Za-z0-9_.-]{0,63})\s*(?:\[CALL_ID\]\w{1,64})?(?:\[ARGS\])?\s*(?=\{)"
)


def _skip(text: str, at: int, pattern: re.Pattern[str] = _SPACE) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _calls(values: list[Any], thought: str, text: str, how: str) -> Parsed:
    calls = read_calls(values)
    if isinstance(calls, str):
        return broken(calls, how)
    return Parsed(tuple(calls), thought=thought) if calls else Parsed(answer=text)


# --- Hermes and Qwen ---------------------------------------------------------------------

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_HERMES_HOW = f'Write it as {_OPEN}{{"name": "...", "arguments": {{...}}}}{_CLOSE}.'


def read_hermes(text: str) -> Parsed:
    r"""Read JSON objects in ``<tool_call>`` tags, and the XML that Qwen's coders write in them.

    >>> read_hermes('<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>').calls
    (ToolCall(name='add', arguments={'a': 1}, text=None),)
    """
    at = text.find(_OPEN)
    if at < 0:
        return Parsed(answer=text)
    thought = text[:at].strip()
    values: list[Any] = []
    while at >= 0 and len(values) <= MAX_CALLS:
        begin = _skip(text, at + len(_OPEN))
        if text.startswith("<function=", begin):
            tag = read_function_tag(text, begin)
            if isinstance(tag, str):
                return broken(tag, _HERMES_HOW)
            value, end = tag
        else:
            read = read_json(text, begin)
            if isinstance(read, BrokenJson):
                return broken(read.why, _HERMES_HOW)
            value, end = read.value, read.end
        if not isinstance(value, dict):
            return broken("it must be a JSON object", _HERMES_HOW)
        values.append(value)
        at = text.find(_OPEN, end)
    return _some(values, thought, text, _HERMES_HOW)


def _some(values: list[Any], thought: str, text: str, how: str) -> Parsed:
    """Return the calls in ``values``, all of which were meant as calls."""
    found = _calls(values, thought, text, how)
    if not found.problem and len(found.calls) < len(values):
        return broken("it needs a name and arguments", how)
    return found


def write_hermes(calls: tuple[ToolCall, ...], thought: str) -> str:
    """Write JSON objects in ``<tool_call>`` tags."""
    lines = [f"{_OPEN}\n{write_call(call)}\n{_CLOSE}" for call in calls]
    return "\n".join([thought, *lines] if thought else lines)


# --- Llama 3.1 ---------------------------------------------------------------------------

_TAG = "<|python_tag|>"
_LLAMA_OPENINGS = ("{", "[", "<function=")
_LLAMA_HOW = 'Write it as {"name": "...", "parameters": {...}} and nothing else.'


def read_llama(text: str) -> Parsed:
    """Read objects with ``parameters``, which are the whole reply or follow ``<|python_tag|>``.

    >>> read_llama('{"name": "add", "parameters": {"a": 1}}').calls
    (ToolCall(name='add', arguments={'a': 1}, text=None),)
    """
    at, thought, marked = _skip(text, 0), "", False
    if not text.startswith(_LLAMA_OPENINGS, at):
        before, tag, _ = text.partition(_TAG)
        if not tag:
            return Parsed(answer=text)
        at, thought, marked = _skip(text, len(before) + len(_TAG)), before.strip(), True
    values: list[Any] = []
    while text.startswith(_LLAMA_OPENINGS, at) and len(values) <= MAX_CALLS:
        if text[at] == "<":
            found = read_function_tag(text, at)
            if isinstance(found, str):
                return broken(found, _LLAMA_HOW)
            value, end = found
        else:
            read = read_json(text, at)
            if isinstance(read, BrokenJson):
                if marked or looks_like_call(text, at):
                    return broken(read.why, _LLAMA_HOW)
                return Parsed(answer=text)
            value, end = read.value, read.end
        values.append(value)
        at = _skip(text, end, _BETWEEN)
    if marked and not values:
        return broken("no JSON object follows the tag", _LLAMA_HOW)
    return _calls(values, thought, text, _LLAMA_HOW)


def write_llama(calls: tuple[ToolCall, ...], thought: str) -> str:
    """Write objects with ``parameters``."""
    text = "; ".join(write_call(call, arguments="parameters") for call in calls)
    return f"{thought}\n{_TAG}{text}" if thought else text


# --- Mistral -----------------------------------------------------------------------------

_MARK = "[TOOL_CALLS]"
_MISTRAL_HOW = f'Write it as {_MARK}[{{"name": "...", "arguments": {{...}}}}].'


def read_mistral(text: str) -> Parsed:
    """Read the list after ``[TOOL_CALLS]``, or the ``name{...}`` of newer models.

    The mark is a control token that decoding may have dropped, so a bare list is read too.

    >>> read_mistral('[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}}]').calls
    (ToolCall(name='add', arguments={'a': 1}, text=None),)
    >>> read_mistral('[TOOL_CALLS]add[ARGS]{"a": 1}').calls
    (ToolCall(name='add', arguments={'a': 1}, text=None),)
    """
    before, marked, _ = text.partition(_MARK)
    thought = before.strip() if marked else ""
    at = _skip(text, len(before) + len(_MARK) if marked else 0)
    if text.startswith("[{", at) or (marked and text.startswith(("[", "{"), at)):
        read = read_json(text, at)
        if isinstance(read, BrokenJson):
            if marked or looks_like_call(text, at):
                return broken(read.why, _MISTRAL_HOW)
            return Parsed(answer=text)
        values = read.value if isinstance(read.value, list) else [read.value]
        return (_some if marked else _calls)(values, thought, text, _MISTRAL_HOW)
    return _read_named(text, at, thought) if marked else Parsed(answer=text)


def _read_named(text: str, at: int, thought: str) -> Parsed:
    values: list[Any] = []
    while len(values) <= MAX_CALLS and (name := _MISTRAL_NAME.match(text, at)):
        read = read_json(text, name.end())
        if isinstance(read, BrokenJson):
            return broken(read.why, _MISTRAL_HOW)
        values.append({"name": name[1], "arguments": read.value})
        at = _skip(text, read.end)
        if text.startswith(_MARK, at):
            at += len(_MARK)
    if not values:
        return broken(f"no call follows {_MARK}", _MISTRAL_HOW)
    return _some(values, thought, text, _MISTRAL_HOW)


def write_mistral(calls: tuple[ToolCall, ...], thought: str) -> str:
    """Write a list after ``[TOOL_CALLS]``."""
    text = f"{_MARK} [{', '.join(write_call(call) for call in calls)}]"
    return f"{thought}\n{text}" if thought else text


# --- OpenAI ------------------------------------------------------------------------------

_OPENAI_HOW = (
    'Write it as {"tool_calls": [{"type": "function", "function": {"name": "...", "arguments": '
    '"{...}"}}]}.'
)


def read_openai(text: str) -> Parsed:
    """Read a message of the chat API as JSON, its ``tool_calls`` alone, or one of them.

    >>> read_openai('{"content": null, "tool_calls": [{"type": "function", "function": '
    ...     '{"name": "add", "arguments": "{}"}}]}').calls
    (ToolCall(name='add', arguments={}, text=None),)
    """
    if not text.lstrip().startswith(("{", "[")):
        return Parsed(answer=text)
    read = read_json(text)
    if isinstance(read, BrokenJson):
        if looks_like_call(text, read.start) or '"tool_calls"' in text[: read.start + 300]:
            return broken(read.why, _OPENAI_HOW)
        return Parsed(answer=text)
    message = read.value
    if not isinstance(message, dict):
        return _calls([message], "", text, _OPENAI_HOW)
    content = message.get("content")
    thought = content if isinstance(content, str) else ""
    listed = message.get("tool_calls") or message.get("function_call")
    if listed is None:
        return (
            Parsed(answer=content)
            if isinstance(content, str)
            else _calls([message], "", text, _OPENAI_HOW)
        )
    return _some(listed if isinstance(listed, list) else [listed], thought, text, _OPENAI_HOW)


def write_openai(calls: tuple[ToolCall, ...], thought: str) -> str:
    """Write a message of the chat API as JSON."""
    listed = [
        {
            "id": f"call_{at}",
            "type": "function",
            "function": {"name": call.name, "arguments": dump(call.arguments)},
        }
        for at, call in enumerate(calls)
    ]
    return dump({"role": "assistant", "content": thought or None, "tool_calls": listed})


# --- whichever it is ---------------------------------------------------------------------


def read_any(text: str) -> Parsed:
    """Read the style that the reply's first mark belongs to.

    >>> read_any('Well: [TOOL_CALLS]add{"a": 1}').calls[0].name
    'add'
    """
    start = text.lstrip()[:1]
    if start == "{":
        found = read_llama(text)
        return found if found.calls or found.problem else read_openai(text)
    marks = {mark: at for mark in (_OPEN, _MARK, _TAG) if (at := text.find(mark)) >= 0}
    first = min(marks, key=marks.__getitem__, default="")
    if first == _OPEN:
        return read_hermes(text)
    if not first and "```" in text and (found := read_llama(_fenced(text))).calls:
        return found
    return read_mistral(text) if first == _MARK or start == "[" else read_llama(text)


def _fenced(text: str) -> str:
    r"""Return what the first code fence holds.

    >>> _fenced('Sure:\n```json\n{"name": "add"}\n```')
    '{"name": "add"}'
    """
    inside = text.partition("```")[2].partition("```")[0]
    return inside[inside.find("{") :].strip() if "{" in inside else ""


class Style(NamedTuple):
    """One way to write function calls."""

    read: Callable[[str], Parsed]
    write: Callable[[tuple[ToolCall, ...], str], str]
    result: str = "{}"
    """How a result is shown, with ``{}`` where it goes."""


_RESPONSE = "<tool_response>\n{}\n</tool_response>"
STYLES = {
    "auto": Style(read_any, write_hermes, _RESPONSE),
    "openai": Style(read_openai, write_openai),
    "hermes": Style(read_hermes, write_hermes, _RESPONSE),
    "qwen": Style(read_hermes, write_hermes, _RESPONSE),
    "llama3": Style(read_llama, write_llama),
    "mistral": Style(read_mistral, write_mistral),
}


class FunctionCallingParser(ActionParser):
    """Reads function calls as a family of models writes them.

    Args:
        style: ``openai`` (a message of the chat API as JSON), ``hermes`` or ``qwen`` (JSON in
            ``<tool_call>`` tags, or the XML of Qwen's coders), ``llama3`` (JSON with
            ``parameters``), ``mistral`` (a list after ``[TOOL_CALLS]``), or ``auto``, which
            reads all of them and writes Hermes.

    >>> parser = FunctionCallingParser("hermes")
    >>> print(parser.render([ToolCall("add", {"a": 1})], thought="I add."))
    I add.
    <tool_call>
    {"name": "add", "arguments": {"a": 1}}
    </tool_call>
    >>> parser.parse("It is 2.").answer
    'It is 2.'
    """

    def __init__(self, style: str = "auto") -> None:
        if style not in STYLES:
            raise ConfigError(f"style must be one of {', '.join(STYLES)}, got {style!r}")
        self.name, self.style = style, style

    def read(self, text: str) -> Parsed:
        return STYLES[self.style].read(text)

    def write(self, calls: tuple[ToolCall, ...], thought: str) -> str:
        return STYLES[self.style].write(calls, thought)

    def write_answer(self, answer: str, thought: str) -> str:
        if thought:
            raise ConfigError(f"an answer in the {self.name} format has no thought beside it")
        return answer

    def render_result(self, call: ToolCall, result: str) -> str:
        return STYLES[self.style].result.replace("{}", result)

    def instructions(self, tools: Sequence[ToolDefinition]) -> str:
        if not tools:
            return ""
        return (
            f"You may call these tools:\n{list_tools(tools)}\nTo call one, reply in this form:\n"
            f"{self.write((example_call(tools),), '')}\n"
            "The result comes in the next message. A reply without a call is your answer."
        )
