r"""Regular expressions that take linear time, whatever the text.

Python's ``re`` backtracks: ``(a+)+b`` on forty letters takes hours, and here the text is written
by a model that is being trained. ``LinearPattern`` reads the same syntax and walks all
alternatives side by side (Thompson's construction), so a match takes at most the length of the
text times the size of the pattern. What cannot be matched that way (look-around, back-references,
word boundaries, possessive repeats) is refused when the pattern is read.

RE2 does the same in C++. It is not used because this is one grader of a package that needs numpy
and gymnasium and nothing else, and because ``example``, which the environment's oracle answers
with, is no part of it. ``re`` in a child process could be ended, but only by a clock.
"""

from __future__ import annotations

import re
import string
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

MAX_PATTERN_CHARS = 1000
MAX_STATES = 1000
MAX_WORK = 1_000_000
"""Most characters of a text times states of a pattern."""
_MAX_KNOWN = 1000
_MAX_DEPTH = 50
_REPEAT = re.compile(r"\{(\d{0,6})(?:(,)(\d{0,6}))?\}")
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>)?")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[dwsDWSntrfva]|[^\w\s])"
)
_SIGNS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class LinearPattern:
    r"""A regular expression; ``matches`` asks whether it fits a whole text.

    Raises ``ValueError`` for a pattern that is wrong, too large, or not of this kind.

    >>> pattern = LinearPattern(r"(?i)colou?r|\d{2,3} (?:cats|dogs)")
    >>> [pattern.matches(text) for text in ("Color", "12 cats", "1 cats", "colours")]
    [True, True, False, False]
    >>> LinearPattern("(a+)+b").matches("a" * 1000)
    False
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        # A state reads a character and goes on, or it reads nothing and goes on at some places.
        self._reads: list[re.Pattern[str] | None] = []
        self._next: list[tuple[int, ...]] = []
        # Where a set of states leads to, found out once: texts say the same again and again.
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._write(_parse(pattern))
        self._end = self._add(None)

    def matches(self, text: str) -> bool:
        """Return whether the pattern fits the whole of ``text``.

        A text that would take more than ``MAX_WORK`` steps does not fit: the longest that is read
        has a million characters for the smallest patterns and a thousand for the largest.
        """
        if len(text) * len(self._reads) > MAX_WORK:
            return False
        states, known = frozenset(self._spread([0])), self._known
        for char in text:
            then = known.get((states, char))
            if then is None:
                if len(known) >= _MAX_KNOWN:
                    known.clear()
                then = known[states, char] = frozenset(self._spread(self._after(states, char)))
            if not then:
                return False
            states = then
        return self._end in states

    def example(self) -> str:
        """Return a shortest text, not empty, that the pattern fits.

        >>> LinearPattern("[0-9]+ ?(km|miles)").example()
        '0km'
        """
        found = {(0, False): ""}
        queue = deque(found)
        while queue:
            state, moved = queue.popleft()
            text = found[state, moved]
            if state == self._end and moved:
                return text
            reads = self._reads[state]
            char = "" if reads is None else _some_char(reads)
            for then in self._next[state]:
                key = (then, moved or reads is not None)
                if key not in found or len(text + char) < len(found[key]):
                    found[key] = text + char
                    (queue.append if char else queue.appendleft)(key)
        raise ValueError("the pattern fits no text but the empty one")

    def _after(self, states: Iterable[int], char: str) -> Iterator[int]:
        for state in states:
            reads = self._reads[state]
            if reads is not None and reads.match(char):
                yield self._next[state][0]

    def _spread(self, states: Iterable[int]) -> set[int]:
        """Return ``states`` and all that are reached from them without reading."""
        reached = set(states)
        waiting = list(reached)
        while waiting:
            state = waiting.pop()
            if self._reads[state] is None:
                new = [then for then in self._next[state] if then not in reached]
                reached.update(new)
                waiting.extend(new)
        return reached

    # --- from tree to states: what is written continues at the state after its last one ------

    def _add(self, reads: re.Pattern[str] | None) -> int:
        if len(self._next) >= MAX_STATES:
            raise ValueError(f"a pattern has at most {MAX_STATES} states, repeats written out")
        self._reads.append(reads)
        self._next.append((len(self._reads),) if reads is not None else ())
        return len(self._reads) - 1

    def _write(self, node: _Node) -> None:
        if isinstance(node, re.Pattern):
            self._add(node)
        elif isinstance(node, _Choice):
            self._write_choice(node)
        else:
            self._write_repeat(node)

    def _write_choice(self, choice: _Choice) -> None:
        fork, starts, ends = self._add(None), [], []
        for sequence in choice.sequences:
            starts.append(len(self._next))
            for node in sequence:
                self._write(node)
            ends.append(self._add(None))
        self._next[fork] = tuple(starts)
        for end in ends:
            self._next[end] = (len(self._next),)

    def _write_repeat(self, repeat: _Repeat) -> None:
        forks, begin = [], 0
        for at in range(max(repeat.least, 1) if repeat.most is None else repeat.most):
            if at >= repeat.least:
                forks.append(self._add(None))
            begin = len(self._next)
            self._write(repeat.node)
        if repeat.most is None:
            back = self._add(None)
            self._next[back] = (begin, back + 1)
        for fork in forks:
            self._next[fork] = (fork + 1, len(self._next))


# --- from text to tree ------------------------------------------------------------------------


class _Choice(NamedTuple):
    sequences: list[list[_Node]]


class _Repeat(NamedTuple):
    node: _Node
    least: int
    most: int | None
    """None for any number of times."""


_Node = re.Pattern[str] | _Choice | _Repeat


def _parse(pattern: str) -> _Choice:
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"a pattern has at most {MAX_PATTERN_CHARS} characters")
    _check_syntax(pattern)
    flags = re.IGNORECASE if pattern.startswith("(?i)") else re.NOFLAG
    # The whole text has to fit, so anchors at the ends say nothing new.
    text = pattern.removeprefix("(?i)").removeprefix("^")
    bare = text.removesuffix("$")
    if bare != text and (len(bare) - len(bare.rstrip("\\"))) % 2 == 0:
        text = bare
    reader = _Reader(text, flags)
    tree = reader.choice(0)
    if reader.at < len(text):
        raise ValueError(f"the pattern cannot be read from {text[reader.at :][:20]!r} on")
    return tree


def _check_syntax(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "[[" and the like, which may mean something one day
        try:
            re.compile(pattern)
        except (re.error, Warning, OverflowError, RecursionError) as error:
            raise ValueError(f"the pattern cannot be read: {error}") from error


@dataclass
class _Reader:
    """Reads a pattern from left to right; ``re`` has found it well-formed already."""

    text: str
    flags: re.RegexFlag
    at: int = 0

    def choice(self, depth: int) -> _Choice:
        if depth > _MAX_DEPTH:
            raise ValueError(f"groups are nested more than {_MAX_DEPTH} deep")
        sequences = [self.sequence(depth)]
        while self.text.startswith("|", self.at):
            self.at += 1
            sequences.append(self.sequence(depth))
        return _Choice(sequences)

    def sequence(self, depth: int) -> list[_Node]:
        nodes: list[_Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            node = self.atom(depth)
            least, most = self.repeat()
            nodes.append(node if (least, most) == (1, 1) else _Repeat(node, least, most))
        return nodes

    def repeat(self) -> tuple[int, int | None]:
        found = _REPEAT.match(self.text, self.at)
        sign = self.text[self.at : self.at + 1]
        times: tuple[int, int | None] = (1, 1)
        if sign in _SIGNS:
            self.at += 1
            times = _SIGNS[sign]
        elif found and found[0] != "{}":
            self.at = found.end()
            least = int(found[1] or 0)
            times = (least, (int(found[3]) if found[3] else None) if found[2] else least)
        else:
            return times
        if self.text.startswith("+", self.at):
            raise ValueError("a pattern may not have possessive repeats here")
        if self.text.startswith("?", self.at):
            self.at += 1  # lazy or greedy makes no difference to whether it fits
        return times

    def atom(self, depth: int) -> _Node:
        text, at = self.text, self.at
        if text[at] == "(":
            return self.group(depth)
        if text[at] in "^$":
            raise ValueError(f"{text[at]!r} may stand only at the ends of a pattern here")
        if text[at] in "[\\":
            found = (_CLASS if text[at] == "[" else _ESCAPE).match(text, at)
            if found is None:
                raise ValueError(f"a pattern may not have {text[at : at + 2]!r} here")
            self.at = found.end()
            return re.compile(found[0], self.flags)
        self.at += 1
        return re.compile("." if text[at] == "." else re.escape(text[at]), self.flags)

    def group(self, depth: int) -> _Node:
        start = self.at
        opening = _GROUP.match(self.text, start)
        assert opening is not None
        self.at = opening.end()
        if self.text.startswith("?", self.at):
            raise ValueError(f"a pattern may not have {self.text[start : start + 3]!r} here")
        node = self.choice(depth + 1)
        self.at += 1  # the closing parenthesis, which ``re`` has seen
        return node


def _some_char(reads: re.Pattern[str]) -> str:
    likely = string.digits + string.ascii_letters + string.punctuation + " " + reads.pattern
    every = map(chr, range(sys.maxunicode + 1))
    for chars in (likely, every):
        for char in chars:
            if reads.match(char):
                return char
    raise ValueError("the pattern fits no text")
