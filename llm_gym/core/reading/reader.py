"""From a reply to a move, in one order for all games.

1. An explicit marker: any format's, whatever the rules ask for (``markers``).
2. The last line, without its dressing.
3. The one move that the reply names and does not deny, doubt or ask (``prose``).

What the model was told never counts when it is quoted back. ``readings`` gives the candidates one
after the other; the game decides with ``apply`` which of them it can play, and a refused move
changes nothing. The first attempt, before any of this, is the format's own parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from llm_gym.core.formats import parse_plain
from llm_gym.core.reading.cues import TAKEN_BACK
from llm_gym.core.reading.dressing import LISTED, plain_text, undress
from llm_gym.core.reading.markers import Marker, find_markers, is_hedge
from llm_gym.core.reading.prose import WINDOW, Verdict, is_open, judge, taken_back
from llm_gym.core.reading.spoken import spoken
from llm_gym.core.reading.told import Told

_MARKS = re.compile(r"<[a-z]|\\boxed|```|[:{\[]", re.IGNORECASE)
_WITHDRAWN = Verdict(None, "Your reply takes back what it says. Name the move to play.", "denial")
_HEDGE = Verdict(None, "Your reply gives more than one move. Give one.", "two")


class Speaker(Protocol):
    """What the reader has to know of a game."""

    free_text: bool

    def named_moves(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the moves that a sentence names."""

    def marked_move(self, label: str, text: str) -> str:
        """Return the move that ``text`` is under ``label``."""


class Reading(NamedTuple):
    """A move that a reply may mean."""

    move: str | None
    how: str
    """The kind of the marker, last line or named; why not, if there is no move."""
    problem: str = ""
    """What to tell the player where there is no move."""
    is_final: bool = False
    """Whether nothing else may be read if this cannot be played."""


def has_marker(action: str, move: str) -> bool:
    """Return whether a reply of several lines may hold a marker besides its last line."""
    said = action.rstrip()
    is_last_line = len(said) > len(move) and said.endswith(move)
    return is_last_line and "\n" in said and _MARKS.search(said) is not None


def readings(reply: str, game: Speaker, told: Sequence[str]) -> Iterator[Reading]:
    """Yield what ``reply`` may mean, the most explicit first; the first that can be played counts.

    Args:
        reply: What a model wrote.
        game: Finds moves in sentences.
        told: What the model has read; quoting it says nothing.
    """
    text = spoken(reply)
    is_long, text = len(text) > WINDOW, text[-WINDOW:]
    if not game.free_text:
        text = plain_text(text)
    known = Told(tuple(told))
    text = text if is_long else _without_quotes(text, known)
    text, is_cut = _standing(text, game)
    markers = find_markers(text)
    if is_hedge(text, markers) or _is_plan(text, markers, game):
        yield Reading(None, _HEDGE.why, _HEDGE.problem, is_final=True)
    seen_strong = False
    for marker in markers:
        if marker.kind == "statement" and game.free_text:
            continue  # a sentence, and to be weighed as one
        if not (seen_strong and marker.is_strong):  # of several, the last
            seen_strong = seen_strong or marker.is_strong
            yield from _marked(marker, game)
    if _lists_moves(text, game):
        yield Reading(None, _HEDGE.why, _HEDGE.problem, is_final=True)
    last = parse_plain(text)
    is_said = last is not None and (game.free_text or not is_open(last))
    if is_said and (bare := game.marked_move("", undress(last or ""))):
        yield Reading(bare, "last line")
    verdict = judge(text, game.named_moves, known)
    if verdict.move is not None or verdict.problem:
        yield Reading(verdict.move, verdict.why or "named", verdict.problem, is_final=True)
    elif is_cut:
        yield Reading(None, _WITHDRAWN.why, _WITHDRAWN.problem, is_final=True)


def _standing(text: str, game: Speaker) -> tuple[str, bool]:
    """Return ``text`` without what it takes back itself, and whether it takes anything back."""
    if TAKEN_BACK.search(text) is None:
        return text, False
    markers = find_markers(text)
    end = taken_back(text, game.named_moves, any(one.is_strong for one in markers))
    if game.free_text:  # it may be part of an answer, unless another one follows
        lines = text[end:].strip().split("\n")[-3:]
        if not any(True for line in lines for _ in game.named_moves(line)):
            return text, False
    # A thought within an object takes nothing back.
    objects = (one for one in markers if one.kind == "json")
    end = min((one.start for one in objects if one.start < end < one.end), default=end)
    return text[end:], end > 0


def _is_plan(text: str, markers: list[Marker], game: Speaker) -> bool:
    """Return whether the last two markers are alike, give different moves and nothing between."""
    if len(markers) < 2 or not markers[1].is_strong or markers[0][:2] != markers[1][:2]:
        return False
    last, other = (undress(one.text).casefold() for one in markers[:2])
    between = text[markers[1].end : markers[0].start].strip(" \n\t\r,;.|*`-")
    apart = markers[1].end <= markers[0].start and not between
    return apart and last != other and any(game.named_moves(markers[1].text))


def _marked(marker: Marker, game: Speaker) -> Iterator[Reading]:
    raw, bare = marker.text, undress(marker.text)
    # Where any text is a move, the first reading counts: it must be the undressed one.
    texts = [bare] if game.free_text and marker.kind != "fence" else [raw, bare]
    if marker.more and not game.free_text:
        texts.append(marker.more)
    said = [game.marked_move(marker.label, text) for text in dict.fromkeys(texts)]
    if game.free_text or not is_open(raw):
        yield from (Reading(move, marker.kind) for move in said if move)
    verdict = judge(raw, game.named_moves)
    if verdict.move is not None or verdict.problem:
        yield Reading(verdict.move, verdict.why or marker.kind, verdict.problem, is_final=True)
    elif marker.is_strong and said[0]:
        yield Reading(said[0], marker.kind, is_final=True)


def _lists_moves(text: str, game: Speaker) -> bool:
    """Return whether ``text`` ends with a list of different moves: options, or a plan."""
    lines = [line for line in text[-WINDOW:].split("\n") if line.strip()][-2:]
    if len(lines) < 2 or not all(LISTED.match(line) for line in lines):
        return False
    first, last = (_whole_move(undress(line), game) for line in lines)
    return bool(first and last) and first != last


def _whole_move(text: str, game: Speaker) -> str:
    for start, end, move in game.named_moves(text):
        return move if start == 0 and end == len(text) else ""
    return ""


def _without_quotes(text: str, known: Told) -> str:
    """Return ``text`` without the lines that the model was told, as far as they are sentences."""
    lines = [line for line in text.split("\n") if " " not in line.strip() or not known.has(line)]
    return "\n".join(lines)
