"""Find measured numbers in README and docs that no committed result file has.

A number with a unit of measurement (%, s, ms, x, tokens/s, GiB, ...), spelled out too ("twice as"),
a decimal number, "27 of 30", and a cell of a table with a whole number of two digits or more count
as measured; on the pages of ``STRICT`` every such whole number does. Versions of packages do not.
Each must stand in one of these places, code apart:

- a block that ``benchmarks/pages.py`` writes from result files, ``<!-- NAME -->`` to
  ``<!-- /NAME -->``, or a page that another script writes whole (``WHOLE``);
- a paragraph or table with ``<!-- results: FILE.json PATH, PATH -->`` (a path: ``rows.0.seconds``):
  each number is one of these values at the precision that is printed, and each of these values is
  printed. Without paths, each number is somewhere in the file;
- a paragraph or table with ``<!-- settings: WHY -->``: a limit, a default, a peer's figure.

A comment that stands alone speaks of the paragraph or table below it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.lib.machine import RESULTS

WHOLE = {"docs/settings.md": "settings: written whole from the schema"}
"""Pages that a script writes whole → what they would have to say of themselves."""

STRICT = ("README.md", "docs/reports/credit.md", "docs/reports/results.md")
"""Pages whose whole numbers are results."""

# ruff: noqa: RUF001 - pages are written with proper signs
_NUMBER = r"[-+−]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
_UNITS = {
    r"%(?! interval)": (100,),
    r"percent\b": (100,),
    r"points?\b": (100, 1),
    r"(?:CPU |GPU )?(?:s|sec|seconds?)\b": (1, 1e-3),
    r"(?:CPU |GPU )?(?:min|minutes?)\b": (1, 1 / 60),
    r"hours?\b": (1, 1 / 60, 1 / 3600),
    r"ms\b|milliseconds?\b": (1, 1e3),
    r"[µu]s\b|microseconds?\b": (1, 1e3, 1e6),
    r"x(?!\w)|×(?!\s?\d)|fold\b|times (?:as|the|less|more|[a-z]+er)\b": (1,),
    r"(?:[a-z]+|k|M)?/s\b|(?:tokens|steps|calls|episodes) (?:per|a) second\b": (1, 1e-3, 1e-6),
    r"[KMG]i?B\b": (1, 2**-10, 2**-20, 2**-30, 1e-3, 1e-6, 1e-9),
    r"bytes\b": (1,),
}  # fmt: skip
"""Unit → what a value of a file may be multiplied with before it is printed with that unit."""
_JOINT = r"(?:\s?(?:-|–|to|and|or)\s?|, )"
_MEASURED = re.compile(
    rf"(?<![\w.,/-])({_NUMBER}(?:(?:\s?%)?{_JOINT}{_NUMBER})*)"
    rf"(?:\s|-)?(?P<unit>{'|'.join(_UNITS)})"
)
_BARE = re.compile(
    r"(?<![\w.,/#-])[-+−]?(?:\d[\d,]*)?\.\d+(?![\w/-]|[.,]\d)|(?<=\|)\s*[-+−]?\d[\d,]*\d\s*(?=\|)"
    r"|(?<![\w.,/#-])\d[\d,]*(?= (?:out )?of (?:all |the )?\d)"
)
_INTEGER = re.compile(r"(?<![\w.,/#-])[1-9][\d,]*\d(?![\w/-]|[.,]\d| lines|\s?%)")
_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DIGITS = {word: str(digit) for digit, word in enumerate(_WORDS, 1)} | {"twice": "2 times"}
_SPELLED = re.compile(
    rf"(?<!at most )\b(?:{'|'.join(_WORDS)})(?=(?:\s|-)(?:{'|'.join(_UNITS)}))"
    r"|\btwice(?= as (?!many)| the )",
    re.IGNORECASE,
)
_PACKAGES = "Python|Linux|[Vv]erl|vLLM|TRL|AgileRL|[Oo]pen[Ee]nv|[Vv]erifiers|SkyRL-Gym"
_VERSION = re.compile(rf"\b(?:{_PACKAGES}) \d+\.[\d.]+\b")
_COMMENT = re.compile(r"<!-- (results|settings): (.*?) -->", re.DOTALL)
_FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.DOTALL | re.MULTILINE)
_QUIET = re.compile(r"``.*?``|`[^`]*`|\]\([^)]*\)|https?://\S+", re.DOTALL)


class Printed(NamedTuple):
    """A number as a page shows it."""

    text: str
    unit: str = ""
    """As printed; empty for a bare number."""

    def __str__(self) -> str:
        return f"{self.text} {self.unit}".strip()

    @property
    def value(self) -> float:
        return float(self.text.replace(",", "").replace("−", "-"))

    def shows(self, found: float) -> bool:
        """Whether this is ``found``, rounded to as many digits as are printed.

        >>> Printed("12.5", "%").shows(0.1249), Printed("12.5", "%").shows(0.124)
        (True, False)
        """
        half = 0.5 * 10.0 ** -len(self.text.partition(".")[2]) * (1 + 1e-9)
        known = (scales for unit, scales in _UNITS.items() if re.match(unit, self.unit))
        return any(abs(found * each - self.value) <= half for each in next(known, (1, 100)))


class Block(NamedTuple):
    """A paragraph or a table, and what it says about its numbers."""

    page: str
    line: int
    text: str
    notes: tuple[tuple[str, str], ...]


def check(page: str, text: str, generated: Sequence[str] = ()) -> list[str]:
    """Return a sentence for each number, or reference, of ``text`` that is wrong."""
    whole = _COMMENT.findall(f"<!-- {WHOLE[page]} -->") if page in WHOLE else []
    return [
        f"{block.page}:{block.line}: {wrong}"
        for block in blocks(page, text, generated)
        for wrong in _wrong(block._replace(notes=(*block.notes, *whole)))
    ]


def blocks(page: str, text: str, generated: Sequence[str] = ()) -> Iterator[Block]:
    """Yield what lies between blank lines, without code and what is generated."""
    for name in generated:
        marked = re.compile(rf"<!-- {re.escape(name)} -->\n.*?<!-- /{re.escape(name)} -->", re.S)
        text = marked.sub(_blank, text)
    text = _FENCE.sub(_blank, text)
    text = _COMMENT.sub(lambda found: found[0].replace("\n", " ") + _blank(found), text)
    waiting: tuple[tuple[str, str], ...] = ()
    for found in re.finditer(r"(?:^.*\S.*\n?)+", text, re.MULTILINE):
        notes = tuple(_COMMENT.findall(found[0]))
        own = _COMMENT.sub("", found[0]).replace("**", "")
        if not own.strip():
            waiting += notes
            continue
        line = text[: found.start()].count("\n") + 1
        yield Block(page, line, _QUIET.sub(" ", own), waiting + notes)
        waiting = ()


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def printed(text: str, strict: bool = False) -> list[Printed]:
    """Return the measured numbers of a block; ``strict`` adds whole numbers of two digits or more.

    >>> printed("It took 2-4 minutes on a 4x4 board of 16, from .77 to 1.")
    [Printed(text='2', unit='minutes'), Printed(text='4', unit='minutes'), \
Printed(text='.77', unit='')]
    """
    found = []
    text = _SPELLED.sub(lambda word: _DIGITS[word[0].lower()], text)
    for match in _MEASURED.finditer(text):
        numbers = re.split(rf"(?<=[\d%]){_JOINT}", match[1])
        found += [Printed(number.rstrip(" %"), match["unit"]) for number in numbers]
    rest = _VERSION.sub(" ", _MEASURED.sub(" ", text))
    found += [Printed(number.strip()) for number in _BARE.findall(rest)]
    return found + [Printed(n) for n in _INTEGER.findall(_BARE.sub(" ", rest)) if strict]


def _wrong(block: Block) -> Iterator[str]:
    numbers = printed(block.text, block.page in STRICT)
    if any(kind == "settings" for kind, _ in block.notes):
        return
    known: list[float] = []
    for what in (what for kind, what in block.notes if kind == "results"):
        try:
            values, paths = _values(what)
        except (OSError, LookupError, TypeError, ValueError) as error:
            yield f"there is no {what!r} among the results ({type(error).__name__}: {error})"
            continue
        known += values
        for path, value in paths.items():
            if not any(number.shows(value) for number in numbers):
                yield f"{path} is {value:g}, which is not printed here with a unit"
    lost = [str(each) for each in numbers if not any(map(each.shows, known))]
    if lost:
        yield (
            f"no result file has {', '.join(lost)}; write it by a table of benchmarks/pages.py, "
            "or add '<!-- results: FILE.json PATH -->' or '<!-- settings: WHY -->'"
        )


def _values(what: str) -> tuple[list[float], dict[str, float]]:
    """Return the values that a reference names, and those of its paths by name."""
    name, _, rest = " ".join(what.split()).partition(" ")
    path = (RESULTS / name).resolve()
    path.relative_to(RESULTS.resolve())
    result = json.loads(path.read_text())
    paths = [path.strip() for path in rest.split(",") if path.strip()]
    if not paths:
        return list(_numbers(result)), {}
    found = {f"{name} {path}": _at(result, path) for path in paths}
    return list(found.values()), found


def _at(result: Any, path: str) -> float:
    for step in path.split("."):
        result = result[int(step)] if isinstance(result, list) else result[step]
    return float(result)


def _numbers(result: Any) -> Iterator[float]:
    """Yield every number of a result file."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, list):
        for each in result:
            yield from _numbers(each)
    elif isinstance(result, int | float) and math.isfinite(result):
        yield float(result)
