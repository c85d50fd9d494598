"""Stage 2: which part of a reply is its final answer, in one order for all games.

1. Text that the model retracts is dropped: of "up. No, wait: down" only "down" is left.
2. An explicit marker of any format counts, whatever format the rules ask for (``markup``).
3. Then the last line counts, if it is a move.
4. Then the one move that the sentences state (``moves``).

``readings`` yields the candidates in this order. The game plays the first that ``apply`` accepts;
a refused candidate changes nothing. Text quoted from the prompt never counts.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from llm_gym.reading.formats import ActionFormat, parse_plain
from llm_gym.reading.markup import BULLET, MARKS, STRONG, Marker, find_markers, plain_text, undress
from llm_gym.reading.moves import DENIED, SENTENCES, WINDOW, Find, Named, Reading, is_open, judge

_HALT = "(?:no|actually|wait|hold on|hang on)"
# Two such words, or one of some phrases, retract the text before; a single word may not mean it.
_RETRACTION = re.compile(
    rf"(?i)[.,;!…—\n-][\s\"'*_]{{0,4}}(?:(?P<sure>{_HALT}(?:[\s,.:!…-]{{1,4}}{_HALT}\b)+|oops"
    "|scratch that|never ?mind|on second thoughts?|correction|i take (?:that|it) back|just kidding)"
    r"|wait|hold on|hang on|no(?=[,.:!…—]|\s*\Z))\b"
)
_LOOKS = 8  # retractions that are checked, from the end
_SHORT = 160  # characters of a reply that takes the fast path
_PLAIN = re.compile(r"[A-Za-z0-9(\"'*][\w ,'\"()*/+:-]*[.!]*", re.ASCII)  # one sentence
_BETWEEN = re.compile(r"(?i)[\s*_`\"'.,;|}\])-]*(?:\bor\b[\s*_`\"'.,{\[(a-z]*)?")
_TWO = Reading(None, "two", "Your reply gives more than one move. Give one.", True)
_RETRACTED = Reading(None, "denial", "Your reply takes back what it says. Give one.", True)


class Speaker(Protocol):
    """The part of a game that the reader uses; ``Game`` documents its members."""

    @property
    def free_text(self) -> bool: ...
    @property
    def mention_is_answer(self) -> bool: ...
    def finder(self) -> Find | None: ...
    def named_moves(self, text: str) -> Iterable[Named]: ...
    def marked_move(self, label: str, text: str) -> str: ...


class _Finder(NamedTuple):
    """A game for the fast path: it only finds the moves of a sentence."""

    named_moves: Find
    mention_is_answer: bool
    marked_move: Callable[[str, str], str] = lambda label, text: text
    free_text: bool = False


def is_settled(reply: str, answer: str, move: str, format: ActionFormat, free_text: bool) -> bool:
    """Return whether ``move``, found by the format's parser, needs no further checks."""
    if not free_text and is_open(move):
        return False
    if format.mark:
        after = answer.rfind(move) + len(move)
        return reply.count(format.mark) == 1 and not _RETRACTION.search(answer, after)
    if "\n" not in reply:
        return True
    is_last_line = len(answer.strip()) > len(move) and answer.rstrip().endswith(move)
    return not (BULLET.match(move) or (is_last_line and MARKS.search(reply)))


def readings(reply: str, game: Speaker, context: Sequence[str]) -> Iterable[Reading]:
    """Return what ``reply`` may mean, the most explicit first; the first that can be played counts.

    ``reply`` has no reasoning. ``context`` holds texts that the model has read: quotes of them do
    not count.
    """
    text = reply.strip()
    is_short = len(text) <= _SHORT and "\n" not in text
    find = game.finder() if is_short and not game.free_text else None
    if find is None:
        return _search(reply, game, context)
    found, parts = _glance(text, find, game.mention_is_answer)
    return _search(reply, game, context) if any(_quotes(part, context) for part in parts) else found


@lru_cache(maxsize=4096)  # models repeat replies, above all refused ones
def _glance(text: str, find: Find, mention: bool) -> tuple[tuple[Reading, ...], tuple[str, ...]]:
    """Return the readings of a short reply, and its sentences; they count unless one is a quote."""
    found = tuple(_search(text, _Finder(find, mention), ()))
    is_clear = len(found) < 2 or all(one.move == text for one in found)
    return found, () if is_clear else tuple(map(_squeeze, SENTENCES.split(text)))


@lru_cache(maxsize=4096)
def has_one_reading(text: str, find: Find) -> bool:
    """Return whether a short reply has one reading, whatever the prompt was."""
    is_short = len(text) <= _SHORT and "\n" not in text
    return is_short and all(one.move == text for one in _glance(text, find, False)[0])


def _search(reply: str, game: Speaker | _Finder, context: Sequence[str]) -> Iterator[Reading]:
    text = reply[-WINDOW:].strip()
    is_plain = len(text) <= _SHORT and _PLAIN.fullmatch(text) and not find_markers(text)
    if is_plain and not any(game.named_moves(text)):  # as most refused replies are
        if move := game.marked_move("", undress(text)):
            yield Reading(move, "last line")
        return

    def is_quote(line: str) -> bool:
        return len(reply) <= WINDOW and _quotes(_squeeze(line), context)

    lines = (text if game.free_text else plain_text(text)).split("\n")
    text = "\n".join(line for line in lines if not is_quote(line))
    start = _retracted(text, game)
    text = text[start:]
    yield from _from_markers(text, game)
    last = parse_plain(text) or ""
    if (game.free_text or not is_open(last)) and (bare := game.marked_move("", undress(last))):
        yield Reading(bare, "last line")
    verdict = judge(text, game.named_moves, is_quote, game.mention_is_answer)
    if verdict.is_final or start:
        yield verdict if verdict.is_final else _RETRACTED


def _from_markers(text: str, game: Speaker | _Finder) -> Iterator[Reading]:
    markers = find_markers(text)
    strong = [one for one in markers if one.kind in STRONG]
    if len(strong) > 1 and strong[0].kind == strong[1].kind:
        between = _BETWEEN.fullmatch(text[strong[1].end : strong[0].start])
        if between and _differ(strong[1].text, strong[0].text, game):
            yield _TWO
    for marker in markers:
        if marker not in strong[1:]:  # the last of several
            yield from _marked(marker, game)
    lines = [line for line in text.split("\n") if line.strip()][-2:]
    if len(lines) > 1 and all(map(BULLET.match, lines)) and _differ(lines[0], lines[1], game):
        yield _TWO  # options, or a plan


def _differ(first: str, second: str, game: Speaker | _Finder) -> bool:
    """Return whether two texts are moves, and not the same one."""
    return judge(f"{undress(first)}\n{undress(second)}", game.named_moves).how == "two"


def _marked(marker: Marker, game: Speaker | _Finder) -> Iterator[Reading]:
    raw, bare = marker.text, undress(marker.text)
    # If any text is a move, the first reading counts, so it must be the one without markup.
    texts = [bare] if game.free_text and marker.kind != "fence" else [raw, bare, marker.more]
    moves = [game.marked_move(marker.label, text) for text in dict.fromkeys(texts) if text]
    if game.free_text or not is_open(raw):
        yield from (Reading(move, marker.kind) for move in moves if move)
    verdict = judge(raw, game.named_moves)
    if verdict.is_final:
        yield verdict if verdict.problem else verdict._replace(how=marker.kind)
    elif marker.kind in STRONG and any(moves[:1]):
        yield Reading(moves[0], marker.kind, is_final=True)


def _retracted(text: str, game: Speaker | _Finder) -> int:
    """Return how many characters of ``text`` are retracted later."""
    found = [*_RETRACTION.finditer(text)][: -_LOOKS - 1 : -1]
    markers = [one for one in find_markers(text) if one.kind in STRONG] if found else []
    for one in found:
        if any(game.named_moves(one[0])):
            continue  # it is a move
        if any(m.kind == "json" and m.start < one.end() < m.end for m in markers):
            continue  # a thought inside a JSON object retracts nothing
        rest = text[one.end() :].lstrip(" \n,.:!…—-")
        another = DENIED.search(SENTENCES.split(rest, 1)[0]) or judge(rest, game.named_moves).move
        if not one["sure"] and not another and (rest or markers):
            continue  # a single word is no retraction
        if game.free_text and not any(any(game.named_moves(s)) for s in rest.split("\n")[-3:]):
            continue  # it may be part of an answer, unless another one follows
        return one.end()
    return 0


# --- quotes --------------------------------------------------------------------------------------


def _squeeze(text: str) -> str:
    return " ".join(undress(text).casefold().split())


@lru_cache(maxsize=64)
def _known_lines(text: str) -> str:
    parts = [*SENTENCES.split(text[-20_000:]), *text[-20_000:].split("\n")]
    return "\n".join(["", *map(_squeeze, parts), ""])


def _quotes(line: str, context: Sequence[str]) -> bool:
    """Return whether ``line`` is a line or sentence of ``context``, or the first words of one."""
    words = line.split(" ")
    quote = f"\n{line}" if len(words) > 3 else f"\n{line}\n"
    for text in context if len(words) > 1 else ():
        folded = text.casefold()  # has it every word? A cheap test before the exact one
        if all(word in folded for word in words) and quote in _known_lines(text):
            return True
    return False
