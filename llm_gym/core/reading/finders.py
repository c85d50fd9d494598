"""Finders: the moves that a sentence names, each with its place in the sentence.

Every finder is linear in the sentence. They know how a move is written, not whether it is a good
one: of "4 or 5" both are found, even if only 5 could be played.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from llm_gym.core.reading.idioms import DIRECTIONS, IDIOM
from llm_gym.core.reading.prose import Named

_NUMBER = re.compile(
    r"(?<![\w.])(?<!\d,)(?<!--)(?:(?<!-)[-\u2212](?=\d))?(?:\d{1,3}(?:,\d{3})+|\d{1,18})(?!\w|[.,]\d|\s?%)"
)
# Possessive (``++``), and matched whether or not a result follows, so that a long chain is gone
# over once and not from each of its terms.
_SUM = re.compile(
    r"((?<!\d)\d++(?:\s?[-+*/\u00d7\u00f7\u2212]\s?\d++)++)(\s?(?:=|\bis\b|\bequals\b|\bgives\b|\bmakes\b))?"
)
_ROW = re.compile(r"(?:-|(?<!\d))\d+(?:[ \t|.]+-?\d+)+(?![.\d])")
# "1, 2, 3" counts aloud, and "11-20", "from 11 to 20" or "between 11 and 20" are where it may be.
_SPAN = re.compile(
    r"(?<![\w.-])\d++(?:,\s\d++){2,}+|(?<![\w.-])\d++[-\u2013]\d++(?![\w-])(?!\s?=)"
    r"|\b(?:from|range(?:\s\w{1,4})?|between)\s\d++\s(?:to|and)\s\d++",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)
def _phrases(moves: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, str]]:
    ordered = sorted(moves, key=len, reverse=True)
    parts = (r"\s+".join(map(re.escape, move.split())) for move in ordered)
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(parts)})(?![\w-])", re.IGNORECASE)
    return pattern, {" ".join(move.casefold().split()): move for move in moves}


def find_phrases(text: str, moves: Sequence[str]) -> Iterator[Named]:
    """Yield the ``moves`` that ``text`` names word for word, whatever their case.

    >>> list(find_phrases("I Stand, as standing by is wise.", ["hit", "stand"]))
    [(2, 7, 'stand')]
    >>> list(find_phrases("I give up. Push up!", ["up", "push up"]))
    [(11, 18, 'push up')]
    """
    if not moves:
        return
    pattern, names = _phrases(tuple(moves))
    idioms = {at for one in IDIOM.finditer(text) for at in range(*one.span())}
    for one in pattern.finditer(text):
        if one.start() in idioms and one[0].lower() in DIRECTIONS:
            continue
        yield one.start(), one.end(), names[" ".join(one[0].casefold().split())]


@lru_cache(maxsize=256)
def _bounded(pattern: str) -> re.Pattern[str]:
    before, after = r"(?<![\w.-])(?<!\d[ ,])(?<!\d, )", r"(?![\w-]|\.\d|[ ,]{1,2}[-.]?\d)"
    return re.compile(f"{before}(?:{pattern}){after}")


def find_pattern(text: str, pattern: str) -> Iterator[Named]:
    """Yield what matches a regex of moves, where it stands as words of its own.

    >>> list(find_pattern("try a1, not ba1", "[a-h][1-8]"))
    [(4, 6, 'a1')]
    """
    for one in _bounded(pattern).finditer(text):
        yield one.start(), one.end(), one[0]


def apart(found: Iterable[Named]) -> Iterator[Named]:
    """Yield the moves by their place, of two that overlap the first.

    >>> list(apart([(4, 9, "b"), (0, 5, "a")]))
    [(0, 5, 'a')]
    """
    last = -1
    for one in sorted(found, key=lambda named: (named[0], -named[1])):
        if one[0] >= last:
            yield one
            last = one[1]


def find_numbers(text: str) -> Iterator[Named]:
    """Yield the whole numbers in ``text``, but for the terms of a sum and the rows of a board.

    >>> [move for *_, move in find_numbers("3 + 4 = 7, so 7 and -2, not 3.5 or 20%. 1 2 3")]
    ['7', '7', '-2']
    """
    skipped = no_results(text)
    for one in _NUMBER.finditer(text):
        if one.start() not in skipped:
            yield one.start(), one.end(), one[0].replace("\u2212", "-").replace(",", "")


def no_results(text: str) -> set[int]:
    """Return the places of numbers that lead up to a result: terms of a sum, rows, ranges."""
    sums = (one.span(1) for one in _SUM.finditer(text) if one[2])
    rows = (one.span() for pattern in (_ROW, _SPAN) for one in pattern.finditer(text))
    return {at for start, end in (*sums, *rows) for at in range(start, end)}


# --- words ---------------------------------------------------------------------------------

_CALLED = re.compile(
    r"(?:\b(?:guess(?:es|ing)?|try(?:ing)?|chooses?|choosing|meant?|it'?s|now|pick(?:ing)?|say(?:ing)?|play(?:ing)?"
    r"|select(?:ing)?|go(?:ing)? with|use|using|i'?ll|will|would|i'?d|let'?s|let me|answer|move"
    r"|choice|action|step|is|be|with|to|then|think|believe|should|do|hence|thus|definitely|clearly"
    r"|certainly|so|on)\s{1,3}|[:=,>\u2192]\s{0,3}|\s[-\u2013\u2014]\s{1,3}){1,3}"
    r"(?:(?:the|a|my|next|new|word|letter|is|be|guess|:|to)\s{1,3}){0,4}[\"'`*\u201c\u2018\[]{0,3}"
    r"([A-Za-z]+)(?![\w'])",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"'`*\u201c\u2018\[]{1,3}([A-Za-z]+)[.!]?[\"'`*\u201d\u2019\]]{1,3}")
_CAPITALS = re.compile(r"\b([A-Z]{3,})\b")
_FIRST = re.compile(
    r"[\s*_\"'`\u201c\u2018\[-]*([A-Za-z]+)[\"'`\u201d\u2019*\]]*\s*"
    r"(?:[.,;:!?(\u2014\u2013-]|$|(?:because|is my|since|is the|is an?|is correct|is best|it is"
    r"|as|or|to|fits|please)\b)",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"\b(?:or|and|not|versus|vs|over|instead of|rather than)\s+[\"'`*\u201c\u2018]?([A-Za-z]+)\b",
    re.IGNORECASE,
)
# Two words that one sentence sets side by side are both meant, or neither is.
_BESIDE = re.compile(
    r"\b([A-Za-z]+)[\"'`*\u201d\u2019\]]{0,3}(?:\s?(?:[/|&+>=;]|=>|->|\u2192)\s?|,?\s"
    r"(?:and after that|and then|as well as|followed by|and|or|then|otherwise|versus|vs\.?|is)\s)"
    r"(?=[\"'`*\u201c\u2018\[]{0,3}([A-Za-z]+)\b)",
    re.IGNORECASE,
)
_LETTER = re.compile(
    r"\bletters?\s{1,3}(?:is\s|would be\s|:)?\s{0,3}[\"'`*\u201c\u2018]{0,3}([A-Za-z])\b",
    re.IGNORECASE,
)
_SPELLED = re.compile(
    r"(?<![\w'-])[A-Za-z](?:-[A-Za-z]){2,14}(?![\w-])"
    r"|(?<![\w'-])[A-Za-z](?: [A-Za-z]){2,14}(?![\w'-])"
)
_EVERYDAY = frozenset(
    re.findall(
        "[a-z]+",
        """
        the and for you are not but this that with have will your from they what when which guess
        word words letter letters move moves answer next last line reply think would could should
        about first second third final choose because common start begin good best well then there
        here also just like some more most other same very only into than them these those their let
        try use say play pick has had was were can may now its one two all any out our yes step
        english hidden example action choice correct clues right wrong going sure okay game turn
        turns left lives target change hello thanks sorry please again after before since maybe
        never perhaps might either neither goal closer brings seems help made make take know need
        want see does did done each every both such still even been being where why how who way part
        place wait hold oops mind check verify fine safe
        """,
    )
)
_NO_GUESSES = _EVERYDAY | {"a", "i"}


def find_words(text: str, lengths: Sequence[int]) -> Iterator[Named]:
    """Yield the words of these ``lengths`` that ``text`` gives as a guess.

    Everyday words are no guesses, unless they stand where only a guess stands: in quotes or in
    capitals, first in the sentence and followed by a comma, after "my guess is".

    >>> [move for *_, move in find_words("My next guess is crane, which has an a.", (1, 5))]
    ['crane']
    >>> [move for *_, move in find_words("I guess the letter a.", (1, 5))]
    ['a']
    >>> [move for *_, move in find_words("Crane then slate, or rather: slate is ruled out", (5,))]
    ['crane', 'slate', 'slate', 'ruled']
    """
    spans: dict[tuple[int, int], str] = {}
    for pattern in (_QUOTED, _CAPITALS, _CALLED, _FIRST, _JOINED, _LETTER):
        for one in pattern.finditer(text) if pattern is not _FIRST else _once(_FIRST, text):
            word = one[1].lower()
            loose = pattern in (_CALLED, _FIRST, _JOINED)
            if len(word) not in lengths or (loose and word in _NO_GUESSES):
                continue
            spans[one.span(1)] = word
    for one in _BESIDE.finditer(text) if spans else ():
        words = one[1].lower(), one[2].lower()
        is_pair = all(len(word) in lengths and word not in _NO_GUESSES for word in words)
        if is_pair and not spans.keys().isdisjoint((one.span(1), one.span(2))):
            spans |= {one.span(1): words[0], one.span(2): words[1]}
    for one in _SPELLED.finditer(text):
        if len(word := re.sub(r"\W", "", one[0]).lower()) in lengths:
            spans[one.span()] = word
    yield from ((start, end, word) for (start, end), word in sorted(spans.items()))


def _once(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    found = pattern.match(text)
    return [found] if found else []
