"""JSON in the middle of other text, in linear time.

Python's decoder does the reading. It is strict where it is lax (no ``NaN``, no number that
overflows), and the number of attempts is bounded: a failed attempt may cost the whole text.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from llm_gym.errors import ConfigError

_ATTEMPTS = 64  # more than the calls that a reply may have
_OPENINGS = re.compile(r"\{\s*[\"']|\[\s*\{")
_SPACE = re.compile(r"\s*")


class Found(NamedTuple):
    """A JSON value, and where it is in the text."""

    value: Any
    start: int
    end: int


class Broken(NamedTuple):
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


def read_json(text: str, start: int = 0) -> Found | Broken:
    """Return the JSON value that begins at ``start``, after spaces.

    >>> read_json(' {"a": 1} and so on')
    Found(value={'a': 1}, start=1, end=9)
    >>> read_json("{'a': 1}").why
    'JSON needs double quotes, at line 1, column 2'
    """
    space = _SPACE.match(text, start)
    begin = space.end() if space else start
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        return Broken(begin, _explain(text, begin, error))
    except RecursionError:
        return Broken(begin, "the JSON is nested too deeply")
    except ValueError as error:  # NaN, or a number of thousands of digits
        return Broken(begin, str(error).split(";")[0])
    return Found(value, begin, end)


def find_json(text: str) -> tuple[list[Found], list[Broken]]:
    """Return the objects and lists of objects in ``text``, and what is nearly one.

    >>> found, broken = find_json('first {"a": 1}, then [{"b": 2}], in a {set}')
    >>> [one.value for one in found], broken
    ([{'a': 1}, [{'b': 2}]], [])
    """
    found: list[Found] = []
    failed: list[Broken] = []
    at = 0
    while len(found) + len(failed) < _ATTEMPTS and (opening := _OPENINGS.search(text, at)):
        read = read_json(text, opening.start())
        if isinstance(read, Found):
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
