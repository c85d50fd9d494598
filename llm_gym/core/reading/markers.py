r"""Explicit markers: the places where a reply says "this is my move".

Any of them counts in every game, whatever format the rules ask for: tags, a LaTeX box, JSON, a
label such as ``**Action:**``, a code fence, ``[move]``. The last one wins, because a model that
thinks aloud corrects itself; two that are joined by "or" are a hedge.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from llm_gym.core.formats import parse_boxed, parse_json

_NAMES = "action|answer|move|guess|choice|command|final_answer|final answer"
_NAME = re.compile(rf"(?:my_|next_|chosen_|best_)?(?:{_NAMES}|response|output)", re.IGNORECASE)
_LONGEST = 4000  # characters of a move in an object
_TAG = re.compile(rf"<\s?({_NAMES})\s?>", re.IGNORECASE)
_CLOSE = re.compile(rf"</\s?(?:{_NAMES})\s?>|<(?:{_NAMES})>|\n|$", re.IGNORECASE)
_JSON = re.compile(
    rf"\{{[^{{}}]{{0,300}}?[\"'\u201c]?\b({_NAMES})[\"'\u201d]?\s?:\s?"
    r"(?:\"([^\"\n]*)\"|'([^'\n]*)'|\u201c([^\u201d\n]*)\u201d|\[([\d,\s.-]{1,200})\]|([^\s,{}\"'][^,{}\"'\n]{0,200}))",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"^[ \t>*_#`-]{0,12}(?:(?:my|the|your|our|final|next|best|chosen|correct|so|therefore|thus|and)"
    r"[ ,]{1,2}){0,4}(action|answer|move|guess|choice|command|decision|conclusion|selection|pick"
    r"|final)s?(?: (?:is|would be|will be))?"
    r"[ \t*_`#\d]{0,8}[:=][ \t*_]{0,6}(?:\n\s{0,20}|\|\n\s{0,20})?(?:```\w{0,20}\n)?(\S[^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_STATEMENT = re.compile(
    r"\b(?:(?:my|the|final|next|best|correct|right) ){1,3}(?:action|answer|move|guess"
    r"|choice|command)"
    r"(?: here| now)? (?:is|would be|will be)[ \t*_\"'`]{1,6}(\S[^\n]*)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"```[ \t]?([\w+-]{0,20})[ \t]?(?:\n|(?=\S))([^`]{1,4000}?)\n?[ \t]*(?:```|\Z)")
_BRACKET = re.compile(r"(?<![\w\]])\[([^\[\]\n]{1,200})\](?![\w\[(])")
_OR = re.compile(r"[\s*_`\"'.,}\])]*\bor\b[\s*_`\"'.,{\[(a-z]*", re.IGNORECASE)
_TAIL = 20_000
"""Characters from the end in which markers are looked for."""


class Marker(NamedTuple):
    """One place that says "this is my move"."""

    kind: str
    """tag, boxed, json, label, statement, fence or brackets."""
    label: str
    """What it is called there: action, answer, move; the language of a fence."""
    text: str
    start: int
    end: int
    more: str = ""
    """The same with all that an object says, as some moves have several parts."""

    @property
    def is_strong(self) -> bool:
        """Whether it can mean nothing but a move, so that nothing else is looked at."""
        return self.kind in ("tag", "boxed", "json", "label")


def find_markers(text: str) -> list[Marker]:
    r"""Return the markers in ``text``: those that can mean nothing else first, the last one first.

    >>> [(m.kind, m.text) for m in find_markers("**Action:** go up\n```\nx\n``` <Answer>7")]
    [('tag', '7'), ('label', 'go up'), ('fence', 'x')]
    """
    text = text[-_TAIL:]
    found = [*_tags(text), *_boxes(text), *_objects(text), *_labels(text)]
    strong = sorted(found, key=lambda one: -one.start)
    weak = [
        Marker("statement", "answer", one[1].strip(), one.start(), one.end())
        for one in _last(_STATEMENT, text)[:1]
    ]
    weak += [
        Marker("fence", one[1].casefold() or "fence", one[2].strip(), one.start(), one.end())
        for one in _last(_FENCE, text)
    ]
    weak += [
        Marker("brackets", "brackets", one[1].strip(), one.start(), one.end())
        for one in _last(_BRACKET, text)
    ]
    return [one for one in (*strong, *weak) if one.text]


def is_hedge(text: str, markers: list[Marker]) -> bool:
    """Return whether the last two strong markers are joined by "or" and differ."""
    if len(markers) < 2 or not markers[1].is_strong:
        return False
    last, other = markers[0], markers[1]
    between = text[-_TAIL:][other.end : last.start]
    return last.text.casefold() != other.text.casefold() and bool(_OR.fullmatch(between.strip()))


def _last(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    return list(pattern.finditer(text))[:-3:-1]  # the last two, the last one first


def _tags(text: str) -> list[Marker]:
    found = []
    for one in _last(_TAG, text):
        close = _CLOSE.search(text, one.end())
        end = close.start() if close else len(text)
        if not text[one.end() : end].strip():  # the move on a line of its own
            close = re.compile(r"<|\Z").search(text, one.end())
            end = close.start() if close else len(text)
        after = text.find(">", end) + 1 if text.startswith("</", end) else end
        content = text[one.end() : end].strip()
        found.append(Marker("tag", one[1].casefold(), content, one.start(), after))
    return found


def _boxes(text: str) -> list[Marker]:
    at = text.rfind(r"\boxed{")
    if at < 0:
        return []
    inside = parse_boxed(text[at:]) or text[at + 7 :].partition("\n")[0].rstrip("}$ ")
    found = [Marker("boxed", "answer", inside, at, at + 8 + len(inside))]
    before = text.rfind(r"\boxed{", 0, at)
    if before >= 0 and (other := parse_boxed(text[before:at])):
        found.append(Marker("boxed", "answer", other, before, before + 8 + len(other)))
    return found


def _objects(text: str) -> list[Marker]:
    if "{" not in text:
        return []
    found, end = [], len(text)
    for _ in range(2):  # the last two, the last one first
        end = text.rfind("{", 0, end)
        if end >= 0 and (one := _object(text, end)):
            found.append(one)
    return found or [_broken_object(text, one) for one in _last(_JSON, text)]


def _object(text: str, start: int) -> Marker | None:
    r"""Return what the JSON object at ``start`` says.

    >>> _object('{"why": "safe",\n "move": "up"}', 0)[1:3]
    ('move', 'up')
    >>> _object('{"row": 1, "column": 2}', 0)[1:3], _object('{"word": "crane"}', 0)[1:3]
    (('object', 'row 1, column 2'), ('word', 'crane'))
    """
    value, end = _decoded(text, start)
    if value is None:
        return None
    parts = {str(key): _scalar(one) for key, one in value.items()}
    parts = {key: part for key, part in parts.items() if part}
    key = next((key for key in parts if _NAME.fullmatch(key)), "")
    if not key and len(parts) == 1:
        key = next(iter(parts))
    if key:
        others = [part for other, part in parts.items() if other != key]
        more = " ".join([parts[key], *others]) if others else ""
        return Marker("json", key.casefold(), parts[key], start, end, more)
    whole = ", ".join(f"{key} {part}" for key, part in parts.items())
    return Marker("json", "object", whole, start, end) if whole else None


def _decoded(text: str, start: int) -> tuple[dict[str, object] | None, int]:
    """Return the object at ``start``, with quotes of either kind, and where it ends."""
    end = text.find("}", start) + 1
    if "'" in text[start:end] and '"' not in text[start:end]:
        text = text[:start] + text[start:end].replace("'", '"')
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start
    return (value, end) if isinstance(value, dict) else (None, start)


def _scalar(value: object) -> str:
    """Return a value of JSON as a move is written, empty for what cannot be one."""
    if isinstance(value, list) and all(isinstance(one, int) for one in value):
        return " ".join(map(str, value))
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value).strip()[:_LONGEST] if is_plain else ""


def _broken_object(text: str, one: re.Match[str]) -> Marker:
    """Return what an object says that is no JSON to the letter."""
    said = next((part for part in one.groups()[1:] if part), "")
    if one[5]:
        said = " ".join(one[5].replace(",", " ").split())
    elif one[2] and "\\" in one[2]:
        said = parse_json(text[one.start() :]) or one[2]
    end = text.find("}", one.end())
    after = end + 1 if 0 <= end < one.end() + 200 else one.end()
    return Marker("json", one[1].casefold(), said.strip(), one.start(), after)


def _labels(text: str) -> list[Marker]:
    return [
        Marker("label", one[1].casefold(), one[2].strip(), one.start(), one.end())
        for one in _last(_LABEL, text)
    ]
