"""``ToolEnv``: base class of environments in which a move is a tool call or the final answer.

A move has the form ``tool: input`` or ``answer: text`` in every action format. Other forms that
models were trained to write are moves too (``find_call``): ``search("x")``,
``<search>x</search>``, JSON, ``Action:`` with ``Action Input:``. A ``ToolRegistry`` runs the tools;
it is built at the first call of an episode.
"""

import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, ClassVar

from llm_gym import Outcome, TextEnv, go_on, reject
from llm_gym.reading.calls import ToolCall
from llm_gym.reading.markup import undress, without_pictures
from llm_gym.reading.moves import Named
from llm_gym.reading.parsers import get_parser
from llm_gym.tools.definition import Tool
from llm_gym.tools.registry import ToolRegistry

MAX_RESULT_CHARS = 2000
_LANGUAGES = {"py": "python", "python3": "python", "sqlite": "sql", "sqlite3": "sql"}
_CALL = re.compile(r"^[ \t]*([a-z_]+)[ \t]*:", re.MULTILINE | re.IGNORECASE)
_CODE = frozenset({"python", "sql"})
_ANSWERS = frozenset({"answer", "final answer", "final_answer"})
# Words after a call that are no part of its input.
_TAIL = re.compile(
    r",? (?:because|since)\b.*|,? (?:is|would be|as) (?:my|the|a|not) (?:\w+ )?(?:move"
    r"|mistake|answer"
    r"|choice|idea|action|best)\b.*",
    re.IGNORECASE,
)
_SEARCH_FOR = re.compile(r"\bsearch(?:ing)? for (\S.*)", re.IGNORECASE)
_ANSWER_IS = re.compile(
    r"\banswer (?:to [\w ]{1,40})?(?:is|would be|should be):? (\S.*)", re.IGNORECASE
)


@lru_cache(maxsize=256)  # a refused move is parsed again
def parse_call(move: str) -> tuple[str, str]:
    """Return the name before the colon, in small letters, and the input after it.

    >>> parse_call("Python: print(1)"), parse_call("answer:42"), parse_call("42")
    (('python', 'print(1)'), ('answer', '42'), ('', '42'))
    """
    name, colon, text = move.partition(":")
    name = name.strip().casefold()
    return (name, text.strip()) if colon and name.isidentifier() else ("", move)


def parse_fence(text: str) -> tuple[str, str]:
    r"""Return the language and the code of the last fenced block in ``text``, or two blanks.

    >>> parse_fence("Let me see.\n```python\nx = 1\nprint(x)\n```\n")
    ('python', 'x = 1\nprint(x)')
    >>> parse_fence("```py\n1\n``` is my program"), parse_fence("```py\n1")
    (('python', '1'), ('', ''))
    """
    body, fence, _ = text.rpartition("```")
    if not fence:
        return "", ""
    language, newline, code = body.rpartition("```")[2].partition("\n")
    language = language.strip().casefold()
    return (_LANGUAGES.get(language, language), code.strip("\n")) if newline else ("", "")


def parse_lines(text: str, tools: Collection[str]) -> str | None:
    r"""Return the call in a text of several lines: a fenced block, or ``python:`` and what follows.

    Returns None if the last line is itself a move, or if there is no call.

    >>> parse_lines("python:\nx = 1\nprint(x)", ["python"])
    'python: x = 1\nprint(x)'
    >>> parse_lines("```py\nprint(1)\n```\nThat will do.", ["python"])
    'python: print(1)'
    >>> parse_lines("python: print(1)\nanswer: 1", ["python"])
    """
    text = text.strip()
    if parse_call(text.rpartition("\n")[2])[0] in {*tools, "answer"}:
        return None
    if "```" in text:
        language, code = parse_fence(text)
        if language in tools:
            return f"{language}: {code}"
    for found in reversed(list(_CALL.finditer(text))):
        if (name := found[1].casefold()) in tools:
            given = text[found.end() :].strip()
            if text.count("```", 0, found.start()) % 2:  # it began inside a fence
                return f"{name}: {given.partition('```')[0].strip()}"
            return f"{name}: {parse_fence(given)[1] or given}"
    return None


class ToolEnv(TextEnv):
    """Base class of environments with tools.

    A subclass lists its ``tools`` and grades answers in ``answer``. Each tool has one parameter, a
    text.

    Args:
        **common: See ``TextEnv``.
    """

    max_move_chars = 4000
    free_text = True
    usage: ClassVar[str]
    """How to write a move, for a player whose reply had none."""
    _base_not_state = TextEnv._base_not_state | {"_call", "_another"}

    def __init__(self, **common: Any) -> None:
        self._registry: ToolRegistry | None = None
        self._inputs = {
            tool.name: next(iter(tool.definition.properties)) for tool in self.sample_tools()
        }
        super().__init__(**common)
        self._base_parse = self._read
        names = "|".join((*self._inputs, "answer"))
        joined = r",?\s(?:or|and|and/or)\s+(?:with\s+|maybe\s+)?|\s?[,/]\s?"
        another = rf"(?:{joined})(?:{names})\s?:"
        self._another = re.compile(another, re.IGNORECASE)
        self._call = re.compile(
            rf"(?<!\w)({names})[*_`]{{0,3}}\s?:\s*(\S.*?)(?={another}|$)", re.IGNORECASE
        )

    # --- what a subclass defines ---------------------------------------------------------

    @abstractmethod
    def tools(self) -> list[Tool]:
        """Return the tools of this episode."""

    def sample_tools(self) -> list[Tool]:
        """Return tools with the same definitions as ``tools``, without an episode."""
        return self.tools()

    @abstractmethod
    def question(self) -> str:
        """Return the question."""

    @abstractmethod
    def answer(self, text: str) -> Outcome:
        """Grade an answer."""

    def is_bare_answer(self, text: str) -> bool:
        """Return whether a move without a name is meant as the answer."""
        return False

    # --- the turn ------------------------------------------------------------------------

    def describe(self) -> str:
        return f"{self.question()}\nTurns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        name, text = parse_call(move)
        if name == "answer" or (not name and self.is_bare_answer(text)):
            return self.answer(text) if text else reject(f"Your answer is empty. {self.usage}")
        if name not in self._inputs:
            return reject(self.usage)
        if not text:
            return reject(f"The input of {name} is empty. {self.usage}")
        if self._registry is None:
            self._registry = ToolRegistry(self.tools(), max_result_chars=MAX_RESULT_CHARS)
        _, result = self._registry.execute_tool(name, **{self._inputs[name]: text})
        return go_on(result)

    # --- reading -------------------------------------------------------------------------

    def named_moves(self, text: str) -> Iterable[Named]:
        lower = text.lower()
        is_call = ":" in text or "search" in lower or "answer" in lower
        return self._named(text) if is_call else ()

    def _named(self, text: str) -> Iterator[Named]:
        calls = [*self._call.finditer(text)]
        for one in calls:
            given = one[2][: closed_at(text[: one.start()], one[2])]
            tail = _TAIL.search(given)
            end = one.start(2) + (tail.start() if tail else len(given))
            yield one.start(), end, f"{one[1].lower()}: {undress(text[one.start(2) : end])}"
        if calls:
            return
        for name, pattern in (("search", _SEARCH_FOR), ("answer", _ANSWER_IS)):
            if (name in self._inputs or name == "answer") and (match := pattern.search(text)):
                yield match.start(), match.end(), f"{name}: {undress(_TAIL.sub('', match[1]))}"

    def is_understood(self, move: str) -> bool:
        return parse_call(move)[0] in (*self._inputs, "answer")

    def marked_move(self, label: str, text: str) -> str:
        if self._is_sentence(text):
            return ""  # the reader parses it as sentences
        if not label and ":" not in text:
            return text
        if self.is_understood(text):
            return text
        language = _LANGUAGES.get(label, label)
        if label == "fence":  # code in a language that is not named
            language = next((name for name in self._inputs if name in _CODE), "")
        if language in self._inputs:
            return f"{language}: {text}"
        return f"answer: {text}" if label in _ANSWERS else text

    def forget(self) -> None:
        """Drop the tools of the last episode. Called by ``new_game``."""
        if self._registry is not None:
            self._registry.close()
            self._registry = None

    def close(self) -> None:
        self.forget()
        super().close()

    def _read(self, text: str) -> str | None:
        """Find the move in a reply: fenced code, the usual form, or a call in another form."""
        if self._base_bare and "\n" in text and (move := parse_lines(text, self._inputs)):
            # Code may contain empty lines; after a query, an empty line starts a comment on it.
            is_code = self.strict or move[:6].lower() == "python"
            return move if is_code else move.partition("\n\n")[0]
        move = self._base_format.parse(text)
        if move and not self.strict:
            move = bare_call(move)
            if not self.is_understood(move):
                move = find_call(text, (*self._inputs, "answer")) or move
        return None if move and not self.strict and self._is_sentence(move) else move

    def _is_sentence(self, move: str) -> bool:
        # Code may contain any text, and a move that is too long is refused anyway.
        if move[:6].lower() == "python" or len(move) > self.max_move_chars:
            return False
        is_two = ":" in move and self._another.search(move)
        return bool(is_two or (" " in move and _TAIL.search(move)))


# --- calls in other forms: pure and bounded; an empty text means that there is no call -----

_LONGEST = 20_000  # characters of a reply that are read
_QUOTES = "\"'`\u201c\u201d\u2018\u2019"
_MARKS = {
    "**": "**", "*": "*", "`": "`", '"': '"', "'": "'", "\u201c": "\u201d",
    "(": ")", "[": "]", "{": "}", "$$": "$$", "<": ">",
}  # fmt: skip
_OPENED = re.compile(r"<([a-z]{1,20})(?:\s[^<>]*)?>\s*$", re.IGNORECASE)
_LONGEST_TAG = 200
_PARSERS = ("react", "json", "auto")
_SIGNS = re.compile(r"[({<\[]|action input|quer(?:y|ies)|search|look", re.IGNORECASE)


@lru_cache(maxsize=128)
def find_call(text: str, names: tuple[str, ...]) -> str:
    r"""Return the only tool call in ``text`` as a move; empty if there is none.

    >>> find_call('I will look.\nsearch("Mila Farrow")', ("search",))
    'search: Mila Farrow'
    >>> find_call('{"name": "search", "arguments": {"query": "Mila"}}', ("search",))
    'search: Mila'
    >>> find_call("Action: search\nAction Input: Mila", ("search",))
    'search: Mila'
    >>> find_call("I search", ("search",))
    ''
    """
    if len(text) > _LONGEST or _SIGNS.search(text) is None:
        return ""
    last = text.strip().rpartition("\n")[2].strip(" *`.")
    written = (pattern.fullmatch(last) for pattern in _written(names))
    if found := next(filter(None, written), None):
        return _call(found[1], found[2].strip().strip(_QUOTES), names)
    if tags := list(_tags(names).finditer(text)):
        return _call(tags[-1][1], tags[-1][2], names) if len(tags) == 1 else ""
    return _parsed(text, names)


def _call(name: str, given: str, names: Collection[str]) -> str:
    """Return a call as a move; the text of an answer may itself be a call."""
    inner = given.partition(":")[0].strip().casefold()
    return given.strip() if inner in names else f"{name.lower()}: {given.strip()}"


def bare_call(move: str) -> str:
    """Return a call of the form ``tool: input`` without markup around it.

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
    """Return the end of a call's input, if quotes or brackets were opened ``before`` the call.

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


def _parsed(text: str, names: Collection[str]) -> str:
    """Return the only call that a parser finds, with the first of its arguments."""
    for parser in map(get_parser, _PARSERS):
        calls = [call for call in parser.parse(text).calls if call.name.casefold() in names]
        if len(calls) == 1 and (given := _input(calls[0])):
            return f"{calls[0].name.casefold()}: {given}"
    return ""


def _input(call: ToolCall) -> str:
    given = [one for one in call.arguments.values() if isinstance(one, str | int | float)]
    return str(given[0]) if len(given) == 1 else (call.text or "")
