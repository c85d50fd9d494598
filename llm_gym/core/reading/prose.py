"""The one move that a text names: what is said, and what is denied, doubted, asked or recalled.

A *find* function gives every move that a sentence names, with its place. Here each of them is
judged by the words around it, and the verdict is one move or the reason why there is none.
Only the last ``WINDOW`` characters are read, sentence by sentence, so the work is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice, pairwise
from typing import NamedTuple

from llm_gym.core.reading import cues
from llm_gym.core.reading.dressing import undress
from llm_gym.core.reading.told import Told

Named = tuple[int, int, str]
"""Start, end and the move in the game's own words."""
Find = Callable[[str], Iterable[Named]]
WINDOW = 20_000
_MOST = 64  # moves looked at in one sentence
_BRIEF = 12  # words of a sentence in which a mere mention is a move
_TOLD_NOTHING = Told()
_MEANT = ("stated", "plain")
_LONGEST = 2000  # characters of one sentence, from its end
_LOOKS = 16  # second thoughts looked at, from the end, and sentences after each
SENTENCES = cues.SENTENCES


class Verdict(NamedTuple):
    """What a text says."""

    move: str | None = None
    problem: str = ""
    """Why there is no move, for the player; empty where nothing was named at all."""
    why: str = ""
    """The problem in a word: two, doubt, denial, question."""


def is_question(text: str) -> bool:
    """Return whether ``text`` ends in a question mark, whatever it is dressed in."""
    return text.rstrip("\"'`\u201d\u2019)]*_ ").endswith(("?", "\uff1f"))


def is_open(text: str) -> bool:
    """Return whether ``text`` asks or crosses out what it names.

    >>> is_open("**up?**"), is_open("~~up~~"), is_open("\u274c up"), is_open("up!")
    (True, True, True, False)
    """
    if "~~" in text or is_question(text):
        return True
    return not text.isascii() and any(sign in text for sign in cues.CROSSED_OUT)


def taken_back(text: str, find: Find, is_marked: bool = False) -> int:
    """Return how much of ``text`` a later word takes back: "up. No, wait: down" is "down".

    Args:
        text: What a model wrote.
        find: Gives the moves that a sentence names.
        is_marked: Whether a marker gives the move, which a "no" and nothing else leaves standing.

    >>> text = "I go up. No, wait: down."
    >>> text[taken_back(text, lambda text: []) :]
    ': down.'
    >>> taken_back("I go up. Wait, let me check. Yes.", lambda text: [])
    0
    """
    for one in [*cues.TAKEN_BACK.finditer(text)][: -_LOOKS - 1 : -1]:
        if not text[: one.start()].strip() or any(find(one[0])):  # or it is a move
            continue
        if not (one["pause"] or one["no"]) or _overrules(text, one, find, is_marked):
            return one.end()
    return 0


def _overrules(text: str, one: re.Match[str], find: Find, is_marked: bool) -> bool:
    """Return whether what follows a "wait" or "no" denies what was said, or names another move."""
    rest = text[one.end() : one.end() + _LONGEST].lstrip(" \n,.:!\u2026\u2014-")
    if one["no"] and is_question(text[: one.start()]):  # it has asked itself
        return False
    if one["no"] and not rest:
        return not is_marked
    sentences = SENTENCES.split(rest, _LOOKS)[: _LOOKS if one["pause"] else 1]
    for at, sentence in enumerate(sentences):
        weighed = _weigh(sentence, find)
        meant = _MEANT if cues.BETTER.search(sentence) else ("stated",)
        if any(how in meant for _, how in weighed):
            return True
        is_claim = not (at or weighed or is_question(sentence) or cues.CHECK.match(sentence))
        if is_claim and cues.DENIED_AFTER.search(sentence):
            return True
    return False


def judge(text: str, find: Find, told: Told = _TOLD_NOTHING) -> Verdict:
    """Return the one move that ``text`` names, or why there is none.

    Args:
        text: What a model wrote.
        find: Gives the moves that a sentence names.
        told: What the model has read: quoting it names nothing.
    """
    said: dict[str, set[str]] = {}
    sentences = [one for one in SENTENCES.split(text[-WINDOW:]) if one.strip()]
    if sentences and told.has_start(sentences[-1]):  # a quote, cut off for want of tokens
        sentences.pop()
    for sentence in sentences:
        if not told.has(sentence):
            or_else = cues.OR_ELSE.match(sentence) is not None
            if or_else and cues.OR_NOT.match(sentence):
                said["doubt"] = said.pop("stated", set()) | said.pop("plain", set())
                continue
            weighed = _weigh(sentence, find)
            if cues.INSTEAD.match(sentence) and any(how in _MEANT for _, how in weighed):
                said.clear()
            for move, how in weighed:
                said.setdefault("else" if or_else else how, set()).add(move)
    return _decide(said)


def _decide(said: dict[str, set[str]]) -> Verdict:
    stated, plain, denied = (said.get(how, set()) for how in ("stated", "plain", "denied"))
    doubted, asked = said.get("doubt", set()), said.get("question", set())
    moves = stated or plain or said.get("later", set())
    if others := said.get("else", set()) - moves:  # "Left. Or right?"
        moves, doubted = (moves | others, doubted) if moves else (moves, doubted | others)
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
    sentence, found, slighted = _compared(sentence, found)
    inside = {at for start, end, _ in found for at in range(start, end)}
    strong = [
        one.span() for one in cues.STRONG_BREAK.finditer(sentence) if one.start() not in inside
    ]
    breaks = [one.span() for one in cues.BREAK.finditer(sentence) if one.start() not in inside]
    roles = [
        _role(sentence, start, end, strong, breaks, len(found) == 1) for start, end, _ in found
    ]
    _weigh_together(sentence, found, roles)
    if cues.OR_NOT.match(sentence, found[-1][1]):
        roles[-1] = "doubt"
    if cues.EXAMPLE.match(sentence):
        end = next((s for s, e in strong if sentence[s:e].lower() == "but"), len(sentence))
        roles = [
            "aside" if start < end else role for (start, *_), role in zip(found, roles, strict=True)
        ]
    if cues.CONDITION.match(sentence) and not cues.CONCLUSION.search(sentence):
        roles = ["later" if role in _MEANT else role for role in roles]
    return [(move, role) for (*_, move), role in zip(found, roles, strict=True)] + [
        (move, "denied") for move in slighted
    ]


def _weigh_together(sentence: str, found: list[Named], roles: list[str]) -> None:
    """Change the roles of moves that stand side by side, by what stands between them."""
    for at in range(1, len(found)):
        before, (start, end, move) = found[at - 1], found[at]
        between = sentence[before[1] : start]
        if move == before[2] and cues.NEXT.fullmatch(between):
            found[at] = start, end, f"{move} again"
        # "I go left, up" names two moves; "I go left, up is a wall" names one.
        follows = roles[at - 1] == "stated" and not cues.STRONG_BREAK.search(between)
        if roles[at] == "plain" and follows and not cues.ABOUT_IT.match(sentence, end):
            roles[at] = "stated"
        if cues.ALSO.fullmatch(between) and {roles[at - 1], roles[at]} <= {*_MEANT}:
            is_told = cues.LEADS.match(sentence, end)  # "up + left leads home" plays neither
            roles[at - 1] = roles[at] = "aside" if is_told else "stated"
        if cues.SLASH.fullmatch(between):
            roles[at - 1] = roles[at] = "doubt"


def _compared(sentence: str, found: list[Named]) -> tuple[str, list[Named], list[str]]:
    """Return a sentence without what a move is preferred to: "left rather than up" is "left".

    >>> _compared("left rather than up", [(0, 4, "left"), (17, 19, "up")])
    ('left', [(0, 4, 'left')], ['up'])
    """
    kept, slighted, cut = [found[0]], [], 0
    for before, (start, end, move) in pairwise(found):
        between = sentence[before[1] - cut : start - cut]
        versus = cues.VERSUS.fullmatch(between) or (
            cues.THAN.fullmatch(between) and cues.PREFERRED.search(sentence, 0, start - cut)
        )
        if versus and before[2] != move and kept[-1][2] == before[2]:
            sentence = sentence[: before[1] - cut] + sentence[end - cut :]
            cut += end - before[1]
            slighted.append(move)
        else:
            kept.append((start - cut, end - cut, move))
    return sentence, kept, slighted


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
    after = end + (sentence[end : end + 1] == ":")  # "up: a wall" is about up
    rest = sentence[end : min((s for s, _ in breaks if s >= after), default=len(sentence))]
    if cues.UNTRIED.search(clause):
        return "aside"
    if cues.DENIED_BEFORE.search(clause) and not cues.DOUBT.search(clause):
        return "denied"
    if cues.DOUBT.search(clause) or cues.DOUBT.search(rest):
        return "doubt"
    rest = rest[: 0 if cues.PURPOSE.match(rest) else None]
    if cues.MINE.match(sentence, end) and not cues.DENIED_BEFORE.search(rest):
        return "stated"
    if cues.DENIED_AFTER.search(rest):
        return "denied"
    if cues.ASIDE.search(clause) or cues.PAST.match(sentence, end):
        return "aside"
    if alone and undress(sentence) == undress(sentence[start:end]):
        return "stated"
    opens = cues.STARTS.fullmatch(sentence, 0, start) is not None
    if opens and not cues.ABOUT_IT.match(sentence, end):
        return "stated"
    if len(sentence.split()) > _BRIEF and not cues.CUE.search(part):
        return "aside"
    quoted = sentence[:start].endswith(cues.OPEN) and sentence.startswith(cues.CLOSE, end)
    return "stated" if quoted or cues.CUE.search(part) else "plain"


def _last_end(spans: list[tuple[int, int]], before: int) -> int:
    return max((end for _, end in spans if end <= before), default=0)
