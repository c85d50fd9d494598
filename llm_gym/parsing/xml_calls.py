"""Calls in tags: what Qwen's coders and some Llama prompts write."""

from __future__ import annotations

import re
from typing import Any

from llm_gym.parsing.json_text import Broken, read_json

_NAME = re.compile(r"<function=([A-Za-z0-9_.-]{1,64})>\s*")
_PARAMETER = re.compile(r"<parameter=([^>\n]{1,200})>")
_SPACE = re.compile(r"\s*")
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
        if isinstance(read, Broken):
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
