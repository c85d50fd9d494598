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
from typing import NamedTuple, Protocol

from llm_gym.reading.formats import ActionFormat, parse_plain
from llm_gym.reading.markup import BULLET, MARKS, STRONG, Marker, find_markers, plain_text, undress
from llm_gym.reading.moves import (
    DENIED_AFTER,
    SENTENCES,
    WINDOW,
    Find,
    Named,
    Reading,
    is_open,
    judge,
)

_HALT = "(?:no|actually|wait|hold on|hang on)"
# Two such words take back what was said, and so do some phrases; one may only be a second look.
_RETRACTION = re.compile(
    r"(?i)[.,;!…—\n-][\s\"'*_]{0,4}(?:(?:oh|but|ah|hm+"
    rf"|sorry)[ ,.…]{{1,4}})?(?:(?P<sure>{_HALT}(?:[\s,.:!…-]{{1,4}}{_HALT}\b)+|scratch that"
    "|never ?mind|on second thoughts?|correction|oops|my mistake|i take (?:that|it) back|(?:just"
    r"|only) (?:kidding|joking))|wait|hold on|hang on|no(?=[,.:!…—]|\s*\Z))\b"
)
_LOOKS = 8  # second thoughts looked at, from the end
_SHORT = 160  # characters of a reply that is answered at a glance
_PLAIN = re.compile(r"[A-Za-z0-9][\w ,'-]*[.!]*", re.ASCII)
_SEVERAL = re.compile(rf"[?~]|{SENTENCES.pattern.removeprefix('(?i)')}", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s*_`\"'.,;|}\])-]*(?:\bor\b[\s*_`\"'.,{\[(a-z]*)?", re.IGNORECASE)
_BRACKETED = re.compile(r" \([^()]*\)\W*$")
_TWO = Reading(None, "two", "Your reply gives more than one move. Give one.", is_final=True)
_TAKEN_BACK = Reading(
    None, "denial", "Your reply takes back what it says. Give one.", is_final=True
)


class Speaker(Protocol):
    """What the reader has to know of a game."""

    @property
    def free_text(self) -> bool:
        """Whether a move may be any text."""

    @property
    def mention_is_answer(self) -> bool:
        """Whether a statement that names one move plays it."""

    def finder(self) -> Find | None:
        """Return what finds the moves in a sentence, if the sentence alone decides."""

    def named_moves(self, text: str) -> Iterable[Named]:
        """Yield the moves that a sentence names."""

    def marked_move(self, label: str, text: str) -> str:
        """Return the move that ``text`` is under ``label``."""


def is_settled(reply: str, said: str, move: str, format: ActionFormat, free_text: bool) -> bool:
    """Return whether ``move``, found by the format's own parser, needs no closer look."""
    if not free_text and is_open(move):
        return False
    if format.mark:
        after = said.rfind(move) + len(move)
        return reply.count(format.mark) == 1 and not _RETRACTION.search(said, after)
    if "\n" not in reply:
        return True
    is_last_line = len(said.strip()) > len(move) and said.rstrip().endswith(move)
    return not (BULLET.match(move) or (is_last_line and MARKS.search(reply)))


def readings(said: str, game: Speaker, told: Sequence[str]) -> Iterable[Reading]:
    """Return what a reply may mean, the most explicit first; the first that can be played counts.

    Args:
        said: What a model wrote, without reasoning.
        game: Finds moves in sentences.
        told: What the model has read; quoting it says nothing.
    """
    text = said.strip()
    if len(text) > _SHORT or "\n" in text:
        return _search(said, game, told)
    find = None if game.free_text else game.finder()
    parts: tuple[str, ...] = ()
    if find is None:
        found = _at_once(text, game)
    else:
        found, parts = _glance(text, find, game.mention_is_answer)
    if found is None or any(_quotes(part, told, 3) for part in parts):
        return _search(said, game, told)
    return found


def _at_once(text: str, game: Speaker) -> tuple[Reading, ...] | None:
    """Return the readings of a sentence that names no move, or is one and no more; else None."""
    is_plain = _PLAIN.fullmatch(text)
    if not (is_plain or (text.isascii() and not _SEVERAL.search(text) and not find_markers(text))):
        return None
    bare, found = text.rstrip(".! ") if is_plain else undress(text), [*game.named_moves(text)]
    if not found:  # most replies that cannot be used end here
        move = game.marked_move("", bare)
        return (Reading(move, "last line"),) if move else ()
    is_whole = len(found) == 1 and found[0][:2] == (0, len(bare))
    return (Reading(found[0][2], is_final=True),) if is_whole and is_plain else None


@lru_cache(maxsize=4096)  # players repeat themselves, above all where they are refused
def has_one_reading(text: str, find: Find) -> bool:
    """Return whether a short reply can mean nothing but itself."""
    found = None
    if len(text) <= _SHORT and "\n" not in text:
        found = _at_once(text, _Short(find, False))
    return found is not None and all(one.move == text for one in found)


@lru_cache(maxsize=4096)
def _glance(
    text: str, find: Find, mention_is_answer: bool
) -> tuple[tuple[Reading, ...], tuple[str, ...]]:
    """Return the readings of a short reply in a game where the sentence alone names its moves.

    They count unless one of the sentences that come with them is a quote.
    """
    game = _Short(find, mention_is_answer)
    found = _at_once(text, game)
    if found is None:
        found = (*_search(text, game, ()),)
    is_clear = len(found) < 2 or all(one.move == text for one in found)
    parts = () if is_clear else map(_squeeze, SENTENCES.split(text))
    return found, tuple(part for part in parts if " " in part)


class _Short(NamedTuple):
    find: Find
    mention_is_answer: bool
    free_text: bool = False

    def finder(self) -> Find:
        return self.find

    def named_moves(self, text: str) -> Iterable[Named]:
        return self.find(text)

    def marked_move(self, label: str, text: str) -> str:
        return text


def _search(said: str, game: Speaker, told: Sequence[str]) -> Iterator[Reading]:
    if len(said) > WINDOW:
        told = ()
    text = said[-WINDOW:].strip()
    lines = (text if game.free_text else plain_text(text)).split("\n")
    text = "\n".join(one for one in lines if not _is_quote(one, told))
    start = _retracted(text, game)
    text = text[start:]
    yield from _from_markers(text, game)
    last = parse_plain(text) or ""
    if (game.free_text or not is_open(last)) and (bare := game.marked_move("", undress(last))):
        yield Reading(bare, "last line")
    verdict = judge(
        text, game.named_moves, lambda one: _is_quote(one, told, 3), game.mention_is_answer
    )
    if verdict.is_final:
        yield verdict
    elif start:
        yield _TAKEN_BACK


def _from_markers(text: str, game: Speaker) -> Iterator[Reading]:
    markers = find_markers(text)
    strong = [one for one in markers if one.kind in STRONG]
    if len(strong) > 1 and strong[0].kind == strong[1].kind:
        between = text[strong[1].end : strong[0].start]
        if _BETWEEN.fullmatch(between) and _differ(strong[1].text, strong[0].text, game):
            yield _TWO
    for marker in markers:
        if marker not in strong[1:]:  # of several, the last
            yield from _marked(marker, game)
    lines = [line for line in text.split("\n") if line.strip()][-2:]
    if len(lines) > 1 and all(map(BULLET.match, lines)) and _differ(lines[0], lines[1], game):
        yield _TWO  # options, or a plan


def _differ(first: str, second: str, game: Speaker) -> bool:
    """Return whether two texts are moves, and not the same one."""
    return judge(f"{undress(first)}\n{undress(second)}", game.named_moves).how == "two"


def _marked(marker: Marker, game: Speaker) -> Iterator[Reading]:
    raw, bare = marker.text, undress(marker.text)
    # Where any text is a move, the first reading counts: it must be the undressed one.
    texts = [bare] if game.free_text and marker.kind != "fence" else [raw, bare, marker.more]
    if aside := _BRACKETED.search(raw):
        texts.append(raw[: aside.start()])
    moves = [game.marked_move(marker.label, text) for text in dict.fromkeys(texts) if text]
    if game.free_text or not is_open(raw):
        yield from (Reading(move, marker.kind) for move in moves if move)
    verdict = judge(raw, game.named_moves)
    if verdict.is_final:
        yield verdict if verdict.problem else verdict._replace(how=marker.kind)
    elif marker.kind in STRONG and any(moves[:1]):
        yield Reading(moves[0], marker.kind, is_final=True)


def _retracted(text: str, game: Speaker) -> int:
    """Return how much of ``text`` a later word takes back."""
    found = [*_RETRACTION.finditer(text)][: -_LOOKS - 1 : -1]
    markers = find_markers(text) if found else []
    for one in found:
        if not text[: one.start()].strip() or any(game.named_moves(one[0])):  # or it is a move
            continue
        if any(m.kind == "json" and m.start < one.end() < m.end for m in markers):
            continue  # a thought within an object takes nothing back
        rest = text[one.end() :].lstrip(" \n,.:!…—-")
        is_marked = not rest and any(m.kind in STRONG for m in markers)
        if not one["sure"] and (is_marked or not _overrules(rest, game)):
            continue
        if game.free_text and not any(any(game.named_moves(s)) for s in rest.split("\n")[-3:]):
            continue  # it may be part of an answer, unless another one follows
        return one.end()
    return 0


def _overrules(rest: str, game: Speaker) -> bool:
    """Return whether what follows a "wait" or "no" denies what was said, or states another move."""
    denied = DENIED_AFTER.search(SENTENCES.split(rest, 1)[0])
    return not rest or bool(denied) or judge(rest, game.named_moves).move is not None


# --- quotes --------------------------------------------------------------------------------------


def _squeeze(text: str) -> str:
    return " ".join(undress(text).casefold().split())


@lru_cache(maxsize=64)
def _flat(text: str) -> str:
    return " ".join(text[-20_000:].casefold().split())


@lru_cache(maxsize=64)
def _sentences(text: str) -> frozenset[str]:
    parts = [*SENTENCES.split(text[-20_000:]), *text[-20_000:].split("\n")]
    return frozenset(map(_squeeze, parts))


def _is_quote(said: str, told: Sequence[str], begins: int = 1000) -> bool:
    """Return whether ``said`` is a line or sentence of ``told``; or begins one with many words."""
    return bool(told) and " " in said.strip() and _quotes(_squeeze(said), told, begins)


def _quotes(said: str, told: Sequence[str], begins: int) -> bool:
    for text in told:
        if said in _flat(text) and (  # it is far cheaper to ask this first
            said in (known := _sentences(text))
            or (said.count(" ") >= begins and any(one.startswith(said) for one in known))
        ):
            return True
    return False
