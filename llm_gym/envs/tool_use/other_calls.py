r"""Calls in the ways that models were trained to write them, though the rules ask for another.

``search("x")``, ``<search>x</search>``, JSON in its many styles, ``Action:`` with ``Action Input:``
and ``Search query: x`` all name one call plainly. Everything here is pure and bounded; what is
no call of one of the tools gives an empty text.
"""

import re
from collections.abc import Collection
from functools import lru_cache

from llm_gym.reading.calls import ToolCall
from llm_gym.reading.markup import without_pictures
from llm_gym.reading.parsers import ActionParser, get_parser

_LONGEST = 20_000  # characters of a reply that are looked at
_QUOTES = "\"'`\u201c\u201d\u2018\u2019"
_MARKS = {
    "**": "**", "*": "*", "`": "`", '"': '"', "'": "'", "\u201c": "\u201d",
    "(": ")", "[": "]", "{": "}", "$$": "$$", "<": ">",
}  # fmt: skip
_OPENED = re.compile(r"<([a-z]{1,20})(?:\s[^<>]*)?>\s*$", re.IGNORECASE)
_LONGEST_TAG = 200
_PARSERS = ("react", "json", "auto")
_SIGNS = re.compile(r"[({<\[]|action input|quer(?:y|ies)|search|look", re.IGNORECASE)


def find_call(text: str, names: Collection[str]) -> str:
    r"""Return the one call of a tool in ``text`` as a move; empty where there is none.

    >>> find_call('I will look.\nsearch("Mila Farrow")', ["search"])
    'search: Mila Farrow'
    >>> find_call('{"name": "search", "arguments": {"query": "Mila"}}', ["search"])
    'search: Mila'
    >>> find_call("Action: search\nAction Input: Mila", ["search"])
    'search: Mila'
    >>> find_call("I search", ["search"])
    ''
    """
    if len(text) > _LONGEST or _SIGNS.search(text) is None:
        return ""
    last = text.strip().rpartition("\n")[2].strip(" *`.")
    written = (pattern.fullmatch(last) for pattern in _written(tuple(names)))
    if found := next(filter(None, written), None):
        return _call(found[1], found[2].strip().strip(_QUOTES), names)
    if tags := list(_tags(tuple(names)).finditer(text)):
        return _call(tags[-1][1], tags[-1][2], names) if len(tags) == 1 else ""
    return _parsed(text, names)


def _call(name: str, given: str, names: Collection[str]) -> str:
    """Return a call as a move; what is called an answer may be a call itself."""
    inner = given.partition(":")[0].strip().casefold()
    return given.strip() if inner in names else f"{name.lower()}: {given.strip()}"


def bare_call(move: str) -> str:
    """Return a call of the form ``tool: input`` without what it is dressed in.

    >>> bare_call("**sql:** SELECT 1"), bare_call("sql: `SELECT 1`"), bare_call("`sql: SELECT 1`")
    ('sql: SELECT 1', 'sql: SELECT 1', 'sql: SELECT 1')
    >>> bare_call('python: "a"'), bare_call("**sql: SELECT 1**")  # code; to be read as a sentence
    ('python: "a"', '**sql: SELECT 1**')
    """
    in_ticks = move[:1] == move[-1:] == "`" and move.count("`") == 2
    name, colon, text = (move[1:-1] if in_ticks else move).partition(":")
    name, text = name.strip(), text.strip()
    is_bold = name[:2] == "**" and (name[-2:] == "**" or text[:2] == "**")
    if is_bold:
        name, text = name.strip("*"), text.removeprefix("**").lstrip()
    if not colon or not name.isidentifier() or name.casefold() == "python":
        return move
    if not text.isascii():
        text = without_pictures(text).rstrip("\u2026\u3002")
        move = f"{name}: {text}"
    quote = text[:1]
    is_quoted = quote in ("`", '"') and text[-1:] == quote and text.count(quote) == 2
    if is_quoted:
        text = text[1:-1].strip()
    return f"{name}: {text}" if in_ticks or is_bold or is_quoted else move


def closed_at(before: str, given: str) -> int:
    """Return where the input of a call ends that stands in marks which were opened ``before`` it.

    >>> given = "SELECT count(*)` is my query"
    >>> given[: closed_at("I send `", given)], given[: closed_at("I send ", given)]
    ('SELECT count(*)', 'SELECT count(*)` is my query')
    >>> given = "SELECT count(*) FROM t)."
    >>> given[: closed_at("(", given)]
    'SELECT count(*) FROM t'
    """
    if tag := _OPENED.search(before[-_LONGEST_TAG:]):
        at = given.find(f"</{tag[1]}")
        return at if at >= 0 else len(given)
    opening = next((mark for mark in _MARKS if before.endswith(mark)), "")
    closing = _MARKS.get(opening, "")
    is_open = closing == opening or given.count(closing) > given.count(opening)
    at = given.rfind(closing) if closing and is_open else -1
    return at if at >= 0 else len(given)


@lru_cache(maxsize=16)
def _written(names: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    some = "|".join(map(re.escape, names))
    return tuple(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            rf"({some})\((?:\w{{1,20}}\s?=\s?)?([\"'][^\"']*[\"']|[\w .,-]*)\);?",
            rf"({some})(?:ing)?(?: query| for| input)? ?: ?(\S.*)",
            rf"({some}) [-\u2013\u2014] (\S.*)",
            rf"(?:i(?:'ll| will)? |let me |let's )?({some})(?: for)? "
            r"([\"\u201c][^\"\u201c\u201d]+[\"\u201d])",
        )
    )


@lru_cache(maxsize=16)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    some = "|".join(map(re.escape, names))
    return re.compile(rf"<({some})>([^<]{{1,4000}})</\1>", re.IGNORECASE)


@lru_cache(maxsize=1)
def _readers() -> tuple[ActionParser, ...]:
    return tuple(get_parser(name) for name in _PARSERS)


def _parsed(text: str, names: Collection[str]) -> str:
    """Return the only call that a parser finds, with the first of its arguments."""
    for parser in _readers():
        calls = [call for call in parser.parse(text).calls if call.name.casefold() in names]
        if len(calls) == 1 and (given := _input(calls[0])):
            return f"{calls[0].name.casefold()}: {given}"
    return ""


def _input(call: ToolCall) -> str:
    given = [one for one in call.arguments.values() if isinstance(one, str | int | float)]
    return str(given[0]) if len(given) == 1 else (call.text or "")
