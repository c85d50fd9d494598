"""The one move that a text names: what is said, and what is denied, doubted, asked or recalled.

A *find* function gives every move that a sentence names, with its place. Here each of them is
judged by the words around it, and the verdict is one move or the reason why there is none.
Only the last ``WINDOW`` characters are read, sentence by sentence, so the work is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import NamedTuple

from llm_gym.core.reading.dressing import squeeze, undress

Named = tuple[int, int, str]
"""Start, end and the move in the game's own words."""
Find = Callable[[str], Iterable[Named]]
WINDOW = 20_000
_MOST = 64  # moves looked at in one sentence
_BRIEF = 12  # words of a sentence in which a mere mention is a move
_LONGEST = 2000  # characters of one sentence, from its end

SENTENCES = re.compile(r"(?<=[.!?;])[\"'\u201d\u2019)*_]*\s+|\n+")
_NOT = (
    r"\b(?:not|never|no|don'?t|do n't|doesn'?t|didn'?t|won'?t|can'?t|cannot|isn'?t|aren'?t|wasn'?t"
    r"|shouldn'?t|wouldn'?t|mustn'?t|couldn'?t|neither|nor|without|avoid\w*|refus\w+|declin\w+"
    r"|instead of|rather than|other than|except|anything but|everything but|all but|nothing but"
    r"|unable|against|stop|skip\w*|rul(?:e|ed|ing) out|far from|reject\w*|dismiss\w*|forbid\w*)\b"
)
_DENIED_BEFORE = re.compile(_NOT, re.IGNORECASE)
_DENIED_AFTER = re.compile(
    rf"{_NOT}|\b(?:blocked|impossible|illegal|invalid|wrong|bad|mistake|dangerous|unsafe|pointless"
    r"|useless|out of the question|forbidden|worse|worst|taken|off the table|lose|loses|fails?"
    r"|terrible|unusable|foolish|unwise|risky)\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:or|either|maybe|perhaps|might|may|possibly|could|unsure|not sure|uncertain|undecided"
    r"|don'?t know|do not know|no idea|what about|how about|wonder\w*|torn|between|versus|vs"
    r"|alternatively|whether|hesitat\w*|can'?t decide|cannot decide|any of)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\b(?:if|unless|when|whenever|suppose|imagine|went|moved|tried|played|guessed|previous(?:ly)?"
    r"|you (?:play|move|go|push|press|slip|draw)|last time|last turn|earlier|already|was"
    r"|were|had|used to|you said|you told|said)\b",
    re.IGNORECASE,
)
_STRONG_BREAK = re.compile(
    r";|\s[-\u2013\u2014]+\s|\b(?:because|since|as|(?<!ing )(?<!all )but|so|while|although"
    r"|though|which|where|therefore|thus"
    r"|hence|given|for|after|actually|instead(?! of))\b",
    re.IGNORECASE,
)
_BREAK = re.compile(rf",|:|\(|\bthen\b|{_STRONG_BREAK.pattern}", re.IGNORECASE)
_CUE = re.compile(
    r"\b(?:i|i'?ll|i'?d|i'?m|we|we'?ll|let'?s|let us|let me|please|going with|yes|okay|ok|sure)\b"
    r"|\b(?:move|action|answer|guess|choice|pick|option|decision|command|step|play|solution|result"
    r"|best|response|reply|last line|final|next|number|word|letter|total|value|count|sum)\b"
    r"[^,;]{0,60}(?:\b(?:is|be|would|should|will|are)\b|:|=)|=\s{0,3}$|\b(?:occurs?|appears?)\b|[:]\s{0,3}[*\"'`]{0,3}$",
    re.IGNORECASE,
)
_STARTS = re.compile(r"[\s*_\"'`\u201c\u2018(\[-]*", re.IGNORECASE)
_ABOUT_IT = re.compile(
    r"[\s*_\"'`\u201d\u2019]*(?:is|are|was|has|have|leads?|looks?|seems?|side|of|and|goes|contains?)\b",
    re.IGNORECASE,
)
_MINE = re.compile(
    r"[\s*_\"'`\u201d\u2019,]*(?:is|would be|will be|it is|it'?s|seems|looks|sounds)\s+"
    r"(?:the\s+|my\s+|to\s+be\s+|like\s+){0,2}(?:best|right|my|next|good|correct|final|obvious|only|safest|answer|move|guess|choice"
    r"|action|way|what i)",
    re.IGNORECASE,
)
_NEXT = re.compile(r"[\s,]*(?:and|then|and then)?[\s,]*", re.IGNORECASE)
_OPEN, _CLOSE = tuple("\"'`*\u201c\u2018[<"), tuple("\"'`*\u201d\u2019]>")


class Verdict(NamedTuple):
    """What a text says."""

    move: str | None = None
    problem: str = ""
    """Why there is no move, for the player; empty where nothing was named at all."""
    why: str = ""
    """The problem in a word: two, doubt, denial, question."""


def is_question(text: str) -> bool:
    """Return whether ``text`` ends in a question mark, whatever it is dressed in."""
    return text.rstrip("\"'\u201d\u2019)*_ ").endswith("?")


def judge(text: str, find: Find, known: AbstractSet[str] = frozenset()) -> Verdict:
    """Return the one move that ``text`` names, or why there is none.

    Args:
        text: What a model wrote.
        find: Gives the moves that a sentence names.
        known: Sentences that the model was told, squeezed: quoting them names nothing.
    """
    said: dict[str, set[str]] = {}
    sentences = [one for one in SENTENCES.split(text[-WINDOW:]) if one.strip()]
    if sentences and _is_cut_quote(squeeze(sentences[-1]), known):
        sentences.pop()
    for sentence in sentences:
        if squeeze(sentence) not in known:
            for move, how in _weigh(sentence, find):
                said.setdefault(how, set()).add(move)
    return _decide(said)


def _is_cut_quote(sentence: str, known: AbstractSet[str]) -> bool:
    """Return whether a reply ends, for want of tokens, within a sentence that it quotes."""
    return sentence.count(" ") > 2 and any(told.startswith(sentence) for told in known)


def _decide(said: dict[str, set[str]]) -> Verdict:
    stated, plain, denied = (said.get(how, set()) for how in ("stated", "plain", "denied"))
    doubted, asked = said.get("doubt", set()), said.get("question", set())
    moves = stated or plain
    if len(moves) > 1:
        named = " and ".join(sorted(moves)[:3])
        return Verdict(None, f"Your reply names more than one move: {named}. Name one.", "two")
    if moves & denied:
        return _refused(moves, "also says not to play it", "denial")
    if not stated and doubted:
        return _refused(doubted, "in doubt", "doubt")
    if moves and not (asked and not stated and asked != moves):
        return Verdict(next(iter(moves)))
    if asked:
        return _refused(asked, "as a question", "question")
    return _refused(denied, "as what not to play", "denial") if denied else Verdict()


def _refused(moves: set[str], how: str, why: str) -> Verdict:
    named = " and ".join(sorted(moves)[:3])
    return Verdict(None, f"I read {named} in your reply, but {how}. Name the move to play.", why)


def _weigh(sentence: str, find: Find) -> list[tuple[str, str]]:
    """Return each move in a sentence with what the sentence does with it."""
    sentence = sentence[-_LONGEST:]
    found = [*islice(find(sentence), _MOST)]
    if not found:
        return []
    if is_question(sentence):
        return [(move, "question") for *_, move in found]
    inside = {at for start, end, _ in found for at in range(start, end)}
    strong = [one.span() for one in _STRONG_BREAK.finditer(sentence) if one.start() not in inside]
    breaks = [one.span() for one in _BREAK.finditer(sentence) if one.start() not in inside]
    roles = [
        _role(sentence, start, end, strong, breaks, len(found) == 1) for start, end, _ in found
    ]
    for at in range(1, len(found)):
        before, (start, end, move) = found[at - 1], found[at]
        between = sentence[before[1] : start]
        if move == before[2] and _NEXT.fullmatch(between):
            found[at] = start, end, f"{move} again"
        # "I go left, up" names two moves; "I go left, up is a wall" names one.
        follows = roles[at - 1] == "stated" and not _STRONG_BREAK.search(between)
        if roles[at] == "plain" and follows and not _ABOUT_IT.match(sentence, end):
            roles[at] = "stated"
    return [(move, role) for (*_, move), role in zip(found, roles, strict=True)]


def _role(
    sentence: str,
    start: int,
    end: int,
    strong: list[tuple[int, int]],
    breaks: list[tuple[int, int]],
    alone: bool,
) -> str:
    clause = sentence[_last_end(breaks, start) : start]
    part = sentence[_last_end(strong, start) : start]
    rest = sentence[end : min((s for s, _ in breaks if s >= end), default=len(sentence))]
    if _DENIED_BEFORE.search(clause) and not _DOUBT.search(clause):
        return "denied"
    if _DOUBT.search(clause) or _DOUBT.search(rest):
        return "doubt"
    if _MINE.match(sentence, end) and not _DENIED_BEFORE.search(rest):
        return "stated"
    if _DENIED_AFTER.search(rest):
        return "denied"
    if _ASIDE.search(clause):
        return "aside"
    if alone and undress(sentence) == undress(sentence[start:end]):
        return "stated"
    opens = _STARTS.fullmatch(sentence, 0, start) is not None
    if opens and not _ABOUT_IT.match(sentence, end):
        return "stated"
    if len(sentence.split()) > _BRIEF and not _CUE.search(part):
        return "aside"
    quoted = sentence[:start].endswith(_OPEN) and sentence.startswith(_CLOSE, end)
    return "stated" if quoted or _CUE.search(part) else "plain"


def _last_end(spans: list[tuple[int, int]], before: int) -> int:
    return max((end for _, end in spans if end <= before), default=0)
