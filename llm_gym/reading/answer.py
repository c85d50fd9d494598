"""Stage 2: which part of a reply is its final answer, in one order for all games.

1. What a later word takes back is dropped: of "up. No, wait: down" only "down" is left.
2. An explicit marker of any format counts, whatever the rules ask for (``markup``).
3. Then the last line, if it is a move.
4. Then the one move that the sentences state (``moves``).

``readings`` gives the candidates one after the other. The game decides with ``apply`` which of
them it can play, and a refused move changes nothing. Text quoted from the prompt never counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Protocol

from llm_gym.reading.formats import ActionFormat, parse_plain
from llm_gym.reading.markup import MARKS, STRONG, Marker, find_markers, plain_text, undress
from llm_gym.reading.moves import (
    DENIED_AFTER,
    SENTENCES,
    WINDOW,
    Named,
    Reading,
    is_open,
    is_question,
    judge,
)

_LISTED = re.compile(r"\s{0,8}(?:[-*•+]|\d{1,2}[.)]|\(\d{1,2}\))\s+\S")
_HOLD = r"(?:wait|hold on|hang on)"
_RETRACTION = re.compile(
    r"(?:[.,;!…—-]|\n)[\s\"'*_]{0,4}(?:(?:oh|but|ah|uh|um|hm+|and|sorry)[ ,.…]{1,4}){0,2}"
    rf"(?:(?P<pause>{_HOLD}(?!\W{{1,4}}(?:no|actually|not)\b))"
    rf"|(?:(?:no|actually)[ ,.…]{{1,4}}){{0,2}}(?:{_HOLD}|scratch that|strike that|never ?mind"
    r"|on second thoughts?|correction|oops|my (?:mistake|bad)|i take (?:that|it) back"
    r"|(?:just|only) (?:kidding|joking)|let me correct(?: myself| that)?)|actually[ ,]{1,3}no"
    r"|no (?=actually)|(?P<no>no(?=[,.:!…—]|\s*\Z)))\b(?=\s{0,3}(?:[^\w\s]|no\b|actually\b|that\b"
    r"|i\b|i'|not\b|this\b|$))"
    r"(?:[\s,.:!…-]{1,4}(?:no|actually|scratch that)\b)*",
    re.IGNORECASE,
)
_LOOKS = 8  # second thoughts looked at, from the end
_SHORT = 160  # characters of a reply that is answered at a glance
_PLAIN = re.compile(r"[A-Za-z0-9][\w ,'-]*[.!]*", re.ASCII)
_BETWEEN = re.compile(r"[\s*_`\"'.,;|}\])-]*(?:\bor\b[\s*_`\"'.,{\[(a-z]*)?", re.IGNORECASE)
_TWO = "Your reply gives more than one move. Give one."
_TAKEN_BACK = "Your reply takes back what it says. Name the move to play."


class Speaker(Protocol):
    """What the reader has to know of a game."""

    free_text: bool
    mention_is_answer: bool

    def named_moves(self, text: str) -> Iterator[Named]:
        """Yield the moves that a sentence names."""

    def marked_move(self, label: str, text: str) -> str:
        """Return the move that ``text`` is under ``label``."""


def is_settled(reply: str, said: str, move: str, format: ActionFormat, free_text: bool) -> bool:
    """Return whether ``move``, found by the format's own parser, needs no closer look."""
    if not free_text and is_open(move):
        return False
    if format.mark:
        taken_back = _RETRACTION.search(said, said.rfind(move) + len(move))
        return reply.count(format.mark) == 1 and taken_back is None
    if "\n" not in reply:
        return True
    is_last_line = len(said.strip()) > len(move) and said.rstrip().endswith(move)
    return not (_LISTED.match(move) or (is_last_line and MARKS.search(reply)))


def readings(said: str, game: Speaker, told: Sequence[str]) -> Iterable[Reading]:
    """Return what a reply may mean, the most explicit first; the first that can be played counts.

    Args:
        said: What a model wrote, without reasoning.
        game: Finds moves in sentences.
        told: What the model has read; quoting it says nothing.
    """
    if game.free_text or len(said) > _SHORT:
        return _search(said, game, told)
    is_plain = _PLAIN.fullmatch(said) is not None
    if not is_plain and ("\n" in said.strip() or MARKS.search(said)):
        return _search(said, game, told)
    text = said.rstrip(" .!,'-") if is_plain else plain_text(said.strip()).rstrip(".!")
    for sentence in (text,) if is_plain else SENTENCES.split(text):
        for start, end, move in game.named_moves(sentence):
            is_all = end - start == len(text) and not is_open(said)
            return (Reading(move, is_final=True),) if is_all else _search(said, game, told)
    # Most replies that cannot be used end here.
    bare = text if is_plain else "" if is_open(said) else undress(text)
    return (Reading(bare, "last line"),) if bare else ()


def _search(said: str, game: Speaker, told: Sequence[str]) -> Iterator[Reading]:
    known: frozenset[str] = frozenset()
    if len(said) <= WINDOW:
        known = known.union(*map(_told, told))
    text = _own_text(said[-WINDOW:].strip(), game, known)
    start = _retracted(text, game)
    text = text[start:]
    yield from _from_markers(text, game)
    last = parse_plain(text) or ""
    if (game.free_text or not is_open(last)) and (bare := game.marked_move("", undress(last))):
        yield Reading(bare, "last line")
    verdict = judge(
        text, game.named_moves, lambda one: _is_quote(one, known), game.mention_is_answer
    )
    if verdict.is_final:
        yield verdict
    elif start:
        yield Reading(None, "denial", _TAKEN_BACK, is_final=True)


def _from_markers(text: str, game: Speaker) -> Iterator[Reading]:
    markers = find_markers(text)
    if _are_two(text, markers, game):
        yield Reading(None, "two", _TWO, is_final=True)
    strong = next((one for one in markers if one.kind in STRONG), None)
    for marker in markers:
        if marker.kind not in STRONG or marker is strong:  # of several, the last
            yield from _marked(marker, game)
    if _lists_moves(text, game):
        yield Reading(None, "two", _TWO, is_final=True)


def _own_text(text: str, game: Speaker, known: frozenset[str]) -> str:
    """Return ``text`` in our script, without the lines that the model was told."""
    if not game.free_text:
        text = plain_text(text)
    lines = text.split("\n")
    return "\n".join(one for one in lines if " " not in one.strip() or _squeeze(one) not in known)


def _marked(marker: Marker, game: Speaker) -> Iterator[Reading]:
    raw, bare = marker.text, undress(marker.text)
    # Where any text is a move, the first reading counts: it must be the undressed one.
    texts = [bare] if game.free_text and marker.kind != "fence" else [raw, bare]
    if marker.more and not game.free_text:
        texts.append(marker.more)
    moves = [game.marked_move(marker.label, text) for text in dict.fromkeys(texts)]
    if game.free_text or not is_open(raw):
        yield from (Reading(move, marker.kind) for move in moves if move)
    verdict = judge(raw, game.named_moves)
    if verdict.is_final:
        yield verdict if verdict.problem else verdict._replace(how=marker.kind)
    elif marker.kind in STRONG and moves[0]:
        yield Reading(moves[0], marker.kind, is_final=True)


def _retracted(text: str, game: Speaker) -> int:
    """Return how much of ``text`` a later word takes back."""
    if _RETRACTION.search(text) is None:
        return 0
    markers = find_markers(text)
    for one in [*_RETRACTION.finditer(text)][: -_LOOKS - 1 : -1]:
        if not text[: one.start()].strip() or any(game.named_moves(one[0])):  # or it is a move
            continue
        rest = text[one.end() :].lstrip(" \n,.:!…—-")
        if (one["pause"] or one["no"]) and not _overrules(text[: one.start()], rest, game, markers):
            continue
        if game.free_text and not any(any(game.named_moves(s)) for s in rest.split("\n")[-3:]):
            continue  # it may be part of an answer, unless another one follows
        # A thought within an object takes nothing back.
        inside = (m.start for m in markers if m.kind == "json" and m.start < one.end() < m.end)
        return next(inside, one.end())
    return 0


def _overrules(before: str, rest: str, game: Speaker, markers: list[Marker]) -> bool:
    """Return whether what follows a "wait" or "no" denies what was said, or states another move."""
    if is_question(before):  # it has asked itself
        return False
    if not rest:
        return not any(one.kind in STRONG for one in markers)
    if judge(rest, game.named_moves).move is not None:
        return True
    first = SENTENCES.split(rest, 1)[0]
    checks = is_question(first) or first.lower().startswith(("let ", "i need", "i want", "i have"))
    return not checks and DENIED_AFTER.search(first) is not None


def _are_two(text: str, markers: list[Marker], game: Speaker) -> bool:
    """Return whether the last two strong markers give different moves, side by side."""
    strong = [one for one in markers if one.kind in STRONG][:2]
    if len(strong) < 2 or strong[0].kind != strong[1].kind or strong[1].end > strong[0].start:
        return False
    between = text[strong[1].end : strong[0].start].strip(" \n\t\r")
    last, other = (undress(one.text).casefold() for one in strong)
    is_plan = _BETWEEN.fullmatch(between) is not None and any(game.named_moves(strong[1].text))
    return last != other and is_plan


def _lists_moves(text: str, game: Speaker) -> bool:
    """Return whether ``text`` ends with a list of different moves: options, or a plan."""
    lines = [line for line in text.split("\n") if line.strip()][-2:]
    if len(lines) < 2 or not all(_LISTED.match(line) for line in lines):
        return False
    first, last = (_whole_move(undress(line), game) for line in lines)
    return bool(first and last) and first != last


def _whole_move(text: str, game: Speaker) -> str:
    for start, end, move in game.named_moves(text):
        return move if start == 0 and end == len(text) else ""
    return ""


# --- quotes --------------------------------------------------------------------------------------


def _squeeze(text: str) -> str:
    return " ".join(undress(text).casefold().split())


@lru_cache(maxsize=64)
def _told(text: str) -> frozenset[str]:
    parts = [*SENTENCES.split(text[-20_000:]), *text[-20_000:].split("\n")]
    return frozenset(map(_squeeze, parts))


def _is_quote(sentence: str, known: frozenset[str]) -> bool:
    said = _squeeze(sentence)
    is_cut = said.count(" ") > 2 and any(one.startswith(said) for one in known)
    return said in known or is_cut
