"""Calls as plain JSON, bare or fenced, with or without words around them."""

from __future__ import annotations

from collections.abc import Sequence

from llm_gym.parsing.base import ActionParser, Parsed, ToolCall, ToolDefinition, broken
from llm_gym.parsing.calls import (
    JsonValue,
    dump,
    example_call,
    find_json,
    list_tools,
    looks_like_call,
    read_calls,
    write_call,
)

_HOW = 'Write it as {"tool": "name", "args": {...}}'


class JSONActionParser(ActionParser):
    r"""Reads ``{"tool": ..., "args": {...}}``; several calls are several objects or a list.

    The usual other names for the two keys are read as well. ``{"answer": ...}`` is an answer, and
    a reply without either is one as a whole.

    >>> parser = JSONActionParser()
    >>> parser.parse('Let me see.\n```json\n{"tool": "add", "args": {"a": 1}}\n```').calls
    (ToolCall(name='add', arguments={'a': 1}, text=None),)
    >>> parser.parse("{'tool': 'add'}").problem[:73]
    'I could not read your tool call: JSON needs double quotes, at line 1, col'
    >>> parser.parse("It is 2.").answer
    'It is 2.'
    """

    name = "json"

    def read(self, text: str) -> Parsed:
        found, failed = find_json(text)
        for near in failed:
            if looks_like_call(text, near.start):
                return broken(near.why, f"{_HOW}.")
        calls = read_calls(one.value for one in found)
        if isinstance(calls, str):
            return broken(calls, f"{_HOW}.")
        if calls:
            return Parsed(tuple(calls), thought=_before(text, found))
        for one in found:
            if isinstance(one.value, dict) and isinstance(one.value.get("answer"), str):
                return Parsed(answer=one.value["answer"], thought=_before(text, [one]))
        return Parsed(answer=text)

    def write(self, calls: tuple[ToolCall, ...], thought: str) -> str:
        lines = [write_call(call, "tool", "args") for call in calls]
        return "\n".join([thought, *lines] if thought else lines)

    def write_answer(self, answer: str, thought: str) -> str:
        text = dump({"answer": answer})
        return f"{thought}\n{text}" if thought else text

    def instructions(self, tools: Sequence[ToolDefinition]) -> str:
        if not tools:
            return ""
        call = write_call(example_call(tools), "tool", "args")
        return (
            f"You may call these tools:\n{list_tools(tools)}\nTo call one, reply with a JSON "
            f'object: {call}\nThe result comes in the next message. To answer: {{"answer": "..."}}'
        )


def _before(text: str, found: list[JsonValue]) -> str:
    """Return the words before the first value, without the fence that it stands in."""
    words = text[: found[0].start].rstrip()
    rest, _, last = words.rpartition("\n")
    return rest.strip() if last.startswith("```") and len(last) < 20 else words.strip()
