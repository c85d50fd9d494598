"""Stage 3: the one move that a text names, or the reason why it names none.

A *finder* gives every move that a sentence names, with its place. ``judge`` then asks what each
sentence does with it (``_role``): deny it, doubt it, ask, speak of something else (an *aside*),
state it, or merely mention it. One stated move is played; so is a mention if nothing else is named.
Only the last ``WINDOW`` characters count, and all bounds are fixed, so the work is bounded.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

Named = tuple[int, int, str]
"""Start, end and the move in the game's own words."""
Find = Callable[[str], Iterable[Named]]
WINDOW = 8000
"""Characters of a reply, from its end, in which a move is looked for."""
_MOST_SENTENCES, _MOST_MOVES, _LONGEST, _NEAR = 80, 9, 600, 160
"""Sentences, moves in a sentence, characters of a sentence, and around a move, that are read."""
CROSSED_OUT = "❌✖✗✘⛔🚫👎"

# --- finders -----------------------------------------------------------------------------------

_CARDINALS = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen"
    "|sixteen|seventeen|eighteen|nineteen|twenty"
)
_ORDINALS = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth"
_WORDS = {word: str(at) for at, word in enumerate(_CARDINALS.split("|"))}
_WORDS |= {word: str(at) for at, word in enumerate(_ORDINALS.split("|"), 1)}
_NUMBER = re.compile(
    r"(?i)(?<![\w.])(?<!\d,)(?<!--)(?:(?<!-)[-−](?=\d))?(?:\d{1,3}(?:,\d{3})+"
    r"|\d{1,18})(?=(?:st|nd|rd|th)\b|(?!\w|[.,]\d|\s?%))"
    rf"|\b(?<!minus )(?!one\b)(?:{_CARDINALS})\b(?!-)|(?<=number )one\b|\Aone\Z"
    rf"|\b(?:{_ORDINALS})(?= column\b)"
)
_MAYBE_NUMBER = re.compile(rf"\d|\b(?:{_CARDINALS}|{_ORDINALS})\b", re.IGNORECASE)
_N = rf"(?:(?<!\d)\d++|\b(?:{_CARDINALS})\b)"
_THINGS = (
    r"(?:(?:more|free|possible|other|different|remaining|open|empty|hidden) \w+|(?:in a )?(?:turn"
    r"|word|letter|number|column|row|line|cell|square|step|guess|guesse|move|dis[kc]|option"
    r"|position|choice|live|mine|peg|digit|point|vowel|tile|way|half|halve|corner|attempt|mark"
    r"|candidate)s?(?! (?:is|must)))\b"
)
# Numbers that are no answer: rows of a board, counted things ("9 turns", "4 in a row"), counts
# aloud, ranges, limits ("less than 10") and terms of a sum before its result. A sum is matched
# whether or not a result follows, so that a long one is gone over once.
_NO_ANSWERS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:-|(?<!\d))\d++(?:[ \t|.]+-?\d++)++",
        rf"(?<!number )(?<!square )(?<!column ){_N} {_THINGS}",
        r"(?<![\w.-])\d++(?:(?:,\s\d++){2,}+(?:,?\s(?:and|or)\s\d++)?|,\s\d++,?\s(?:and|or)\s\d++)",
        r"(?<![\w.-])\d++[-–]\d++(?![\w-])(?!\s?=)|[\[(]\d++(?:,\s?|\s?\+\s?)\d++[\])]"
        rf"|\b(?:between|of) {_N} and {_N}|{_N} (?:to|of|in|out of|by) {_N}|\b\d++/\d++\s?=",
        r"\b(?:(?:\w+er|less|more) than|above|below|under|over|at (?:most|least)|up to|around"
        rf"|about|until|disk|rows?|turn|add(?:ing)?|subtract(?:ing)?|plus) {_N}(?: and {_N})?"
        rf"|\b(?:step|guess|try|move) (?:#|number )?{_N}(?=\s?[:.)]\s?\S)",
    )
]
_SUM = re.compile(
    r"((?<!\d)\d++(?:\s?[-+*/×÷−]\s?\d++)++)(\s?(?:=|\b(?:is|equals|gives|makes)\b))?"
)


def find_numbers(text: str) -> Iterator[Named]:
    """Yield the whole numbers that ``text`` may give as an answer, in digits or words.

    >>> [move for *_, move in find_numbers("3 + 4 = 7, so 7 and -2, not 3.5 or 20%. 1 2 3")]
    ['7', '7', '-2']
    >>> [move for *_, move in find_numbers("There are 9 turns, so I guess ten.")]
    ['10']
    """
    if text.isdecimal() and text.isascii() and len(text) < 19:
        return iter([(0, len(text), text)])
    if _MAYBE_NUMBER.search(text) is None:
        return iter(())
    skipped = no_results(text)
    return (
        (*one.span(), _WORDS.get(one[0].lower()) or one[0].replace("−", "-").replace(",", ""))
        for one in _NUMBER.finditer(text)
        if one.start() not in skipped
    )


def no_results(text: str) -> set[int]:
    """Return the places of numbers that lead up to a result or count things."""
    spans = [one.span() for pattern in _NO_ANSWERS for one in pattern.finditer(text)]
    spans += [one.span(1) for one in _SUM.finditer(text) if one[2]]
    return {at for start, end in spans for at in range(start, end)}


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


IDIOM = re.compile(
    r"(?i)\b(?:turns|one turn|steps|lives|moves|nothing|what|\d+|\d+ \w+) (?:is |are )?left\b"
    r"|\bleft(?:\s*:| (?:over|with|column|side|edge|to (?:do|go|play))\b)|\bup (?:to (?:\d|you|me"
    r"|now)|there)\b|\b(?:give|set|end|make|look\w*|(?<=\w )goes|add|back|keep|line"
    r"|open) (?:\w+ )?up\b|\b(?:break|slow|calm|write|narrow|count|cut|comes) (?:\w+ )?down\b"
    r"|\b(?:all|you'?re|you are|that'?s|quite|looks|way is) right|\btime is up\b"
    r"|^\W*(?:okay, )?right,(?= (?:i|so|let|the|my|now|then|that|we|this)\b)"
    r"|(?<!go )(?<!move )(?<!step )\bright (?:now|away|after|before|here|there|next to|answer|side"
    r"|edge|corner)\b|(?<!to )\b(?:the|a|my|your) (?:left|right) (?=[a-z])|\b(?:(?:walls?|holes?"
    r"|box|exit) to|from|of|in|on|at) (?:the|its|your|my) (?:left|right)\b(?: and (?:the )?(?:left"
    r"|right)\b)?|\b(?:top|bottom|upper|lower|far)[ -]+(?:left|right)\b|\b(?:left|right) of\b"
    r"|\b(?:left|right|up|down)(?=\s*-\s*(?:left|right|up|down|most|hand)\b)"
)
"""Words that are no direction where they stand: "Turns left: 5", "the right move", "I give up"."""
_DIRECTIONS = frozenset({"up", "down", "left", "right"})


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
    """
    if not moves:
        return
    pattern, names = _phrases(tuple(moves))
    for one in pattern.finditer(text):
        said = one[0].casefold()
        if not (said in _DIRECTIONS and _is_idiom(text, one.start())):
            yield one.start(), one.end(), names[" ".join(said.split())]


def _is_idiom(text: str, at: int) -> bool:
    return any(one.start() <= at < one.end() for one in IDIOM.finditer(text))


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


# --- what a sentence does with a move ------------------------------------------------------------

SENTENCES = re.compile(
    r"(?i)(?:(?<=[.!?;])(?<!\bvs\.)(?<!e\.g\.)[\"'”’)*_]*\s++|\n++|(?<=\.\.\.)\s*+|,?\s++(?=(?:and"
    r"|but) if\b))(?!(?:or|alternatively)\b)"
)
_OBSTACLE = r"(?:walls?|holes?|dead end|nowhere|trap|cliff|mine)\b"
_NOT = (
    rf"\b(?:not|isn'?t)\b(?! (?:an? |the )?{_OBSTACLE})|n't\b|\b(?:never|cannot|neither|nor"
    rf"|far from|rul(?:e|ed|ing) out|nicht|kein|pas|nunca|не)\b|[不没别{CROSSED_OUT}]"
)
_DENIED_BEFORE = re.compile(
    rf"(?i){_NOT}|\b(?:no|without|refus\w+|(?:instead|other|rather) (?:of|than)|(?:any"
    r"|every)thing but|against|reject\w*|disagree\w*|hate|forget|(?:avoid\w*|stop|skip\w*"
    r"|undo)(?!.*\bby\b))\b|\b(?:unwise|mistake|bad idea|dangerous|wrong)\b[^,;]{0,20}\bto\b"
)
DENIED_AFTER = re.compile(
    rf"(?i){_NOT}|\bno (?:good|use|way|option|longer)\b|\bno\W{{0,4}}$"
    r"|(?<!from )(?<!avoid )\b(?:blocked|impossible|illegal|invalid|wrong|incorrect|bad|mistake"
    r"|dangerous|unsafe|useless|wors[et]|taken|does nothing|los(?:es?|ing)|fail\w*|deadly|risky)\b"
    r"|\b(?:hits?|leads?|is|are|'s|see|=)(?:(?!\b(?:no|not|safe|free|away|clear|past|around)\b"
    rf"|n't)[^,;]){{0,24}}\b{_OBSTACLE}"
)
_DOUBT = re.compile(
    r"(?i)\b(?:or|either|maybe|perhaps|might|may|possibly|could(?! only)|also|too|not sure|(?:what"
    r"|how) about|wonder\w*|between(?! \d)|versus|vs|whether|otherwise|depends)\b"
)
_ASIDE = re.compile(
    r"(?i)\b(?:if|unless|when|suppose|love to|went|(?:mov|tri|play|guess|consider)ed|chose"
    r"|previous(?:ly)?|was|already|were|had|before (?:i|we|you)|such as|you|told|said"
    r"|initially i would|some\w*|is \w+ing|(?:lean|fall|tilt|drift|run)s|(?:i|we) thought"
    r"|thinking (?:about|of)|dealers?|(?<!there )(?<!we )are|(?:i|we|they|he|she) (?:have(?! to)"
    r"|need(?! to)|see|kn[eo]w|can|like(?! to)|hope|lose|win|fall|feel|wish|wonder|notice|always"
    r"|usually|only|still|am (?!\w+ing))|(?:opponent|x) (?:\w+ ){0,2}?(?:will|would|can|may|plays?"
    r"|takes?|took|has|is))\b"
)
"""What is supposed, past, or done by others."""
_ELSEWHERE = re.compile(
    r"(?i)\W{0,4}(?:(?:and |but )?(?:then|later|plan|after(?:wards?| (?:that|this))|next (?:turn"
    r"|time|i)|from there|once|if|when|unless|should (?:it|that))\b|(?:for )?(?:example|instance"
    r"|e\.g)\b(?! of)(?!.*\bbut\b)|(?:the |my |your )?(?:opponent|dealers?|x|they|you|he|she|hole"
    r"|goal|exit|box|target|board|map)\b(?!.*(?:\b(?:i|so|let|therefore)\b|:)))"
)
"""The start of a sentence about later, a condition, an example, or somebody or something else."""
_BREAK = re.compile(
    r"(?i)(?P<strong>\s[-–—]+\s|(?<=\0)\W{0,3}to\b|\b(?:(?P<reason>because|since|as|while"
    r"|which(?! is)|where|(?<!go )(?<!going )for)|(?<!ing )(?<!all )but|so|although|though"
    r"|therefore|thus|hence|given|after|actually|instead(?! of)|in order|so as)\b)|[,:(]"
    r"|(?<=\0)\s(?=(?:i|we|let)\b)|\bthen\b"
)
"""Where a clause ends; a strong break also ends what "I will" or "my move is" refers to."""
_ABOUT_IT = re.compile(
    r"\W*(?:is|are|was|were|ha[sv]e?|leads?|looks?|seems?|side|of|and|goes|there)\b", re.IGNORECASE
)
"""After a move that the sentence is about, rather than one that it chooses."""
_PRAISED = re.compile(
    r"(?i)[\s*_\"'`”’,)]*(?:is|(?:would|will|should) be|it (?:is|shall be)|it'?s|seems|looks"
    r"|sounds)\s*(?:\w+ ){0,3}?(?:\w+est|lesser|right|my|good|correct|final|obvious|only|safe"
    r"|answer|move|guess|choice|way to|wh(?:at|ere) (?:i|we)|wise|strong|(?:bett|short|saf|clos)er"
    r"|fine|one letter|opener|[.!,]|$)"
)
_COMMIT = re.compile(
    r"(?i)\b(?:i'?ll|i'?d|i (?:will|would|shall|should)|let(?:'?s| us| me)|please|we'?ll|(?:i"
    r"|we)(?: \w+ly| just| then| now)? (?!(?:did|do|don|would|will|could|might|may|love|hate"
    r"|mean)\b)[a-z]+|(?:i'?m|we'?re|i am|we are) (?:\w+ly )?\w+ing|(?:^|[,:] ?|\band "
    r"|\bto )(?:\w+ly )?(?:go|move|choose|pick|guess|play|take|place|put|try|start|reveal|flag"
    r"|\w+ing)|best|final(?:ly)?|first|leaves|gives|says)\b|\b(?:move|action|answer|guess|choice"
    r"|decision|step|result|expression|total|sum|it|that"
    r"|my (?:\w+ ){0,2}\w+)\b[^,;]{0,60}(?:\b(?:is|be|should|will|are)\b|'s\b|:|=)"
    r"|[:=>→]\s{0,3}[*\"'`]{0,3}\w*$"
)
"""What chooses a move, where others are named as well."""
_LINK = re.compile(
    r"(?i)[\s,*_`\"'”’]*(?:(?P<versus>(?:and |but )?(?:not|over|rather than|instead of"
    r"|than)(?:\s+(?:to|go|going|move|moving|the|with|at|on))*)|(?P<otherwise>/|\||(?:or|otherwise"
    r"|else)\b[\s\w]{0,20})|(?P<joined>(?:(?:and|then|as well as|followed by|after (?:that|this)"
    r"|\+|&|[-=]?>|→)[\s,*_`\"'“‘]*)*))[\s*_`\"'“‘]*"
)
_CONCLUDES = re.compile(
    r"(?i)\b(?:so|therefore|thus|hence|final(?:ly)?|i (?:pick|choose|take)|actually|gives"
    r"|(?:answer|result|total|sum) is|begin|start|first)\b|\banswer:"
)


class Reading(NamedTuple):
    """A move that a reply may mean, or why it means none."""

    move: str | None = None
    how: str = "named"
    """How the move was found: the kind of a marker, last line or named. Or why there is none: two,
    doubt, denial or question."""
    problem: str = ""
    """What to tell the player where there is no move."""
    is_final: bool = False
    """Whether nothing else may be read if this cannot be played."""


def is_question(text: str) -> bool:
    """Return whether ``text`` ends in a question mark, whatever it is dressed in."""
    return text.rstrip("\"'`”’)]*_ ").endswith(("?", "？"))


def is_open(text: str) -> bool:
    """Return whether ``text`` asks or crosses out what it names.

    >>> is_open("**up?**"), is_open("~~up~~"), is_open("\u274c up"), is_open("up!")
    (True, True, True, False)
    """
    if "~~" in text or is_question(text):
        return True
    return not text.isascii() and any(sign in text for sign in CROSSED_OUT)


def judge(
    text: str,
    find: Find,
    is_quote: Callable[[str], bool] = lambda text: False,
    mentions: bool = False,
) -> Reading:
    """Return the one move that ``text`` states, or why there is none; not final if it names none.

    Args:
        text: What a model wrote.
        find: Gives the moves that a sentence names.
        is_quote: Says whether a sentence only repeats what the model was told.
        mentions: Whether a move that is spoken of counts, if others are only denied or doubted.
    """
    said: dict[str, set[str]] = defaultdict(set)
    stated: list[tuple[set[str], bool]] = []  # by sentence, and whether it concludes
    for sentence in SENTENCES.split(text[-WINDOW:])[-_MOST_SENTENCES:]:
        if not sentence or is_quote(sentence):
            continue
        roles = weigh(sentence, find)
        for move, role in roles:
            said[role].add(move)
        if moves := {move for move, role in roles if role == "stated"}:
            stated.append((moves, _CONCLUDES.search(sentence) is not None))
    named = said["mention"] | said["aside"] if mentions else set().union(*said.values())
    if not stated and len(named) == 1 and (mentions or said["mention"]):  # nothing else is named
        stated = [(named, False)]
    return _decide(stated, said)


def _decide(stated: list[tuple[set[str], bool]], said: dict[str, set[str]]) -> Reading:
    moves = set().union(*(moves for moves, _ in stated))
    if len(moves) > 1 and len(stated[-1][0]) == 1 and stated[-1][1]:
        moves = stated[-1][0]
    if len(moves) > 1:
        named = " and ".join(sorted(moves)[:3])
        problem = f"Your reply names more than one move: {named}. Name one."
        return Reading(None, "two", problem, is_final=True)
    if moves and not moves & said["denied"]:
        return Reading(next(iter(moves)), is_final=True)
    for how, found, told in (
        ("denial", moves, "also says not to play it"),
        ("doubt", said["doubt"], "in doubt"),
        ("question", said["question"], "as a question"),
        ("denial", said["denied"], "as what not to play"),
    ):
        if found:
            named = " and ".join(sorted(found)[:3])
            problem = f"I read {named} in your reply, but {told}. Name the move to play."
            return Reading(None, how, problem, is_final=True)
    return Reading()


def weigh(sentence: str, find: Find) -> list[tuple[str, str]]:
    """Return each move in a sentence with what the sentence does with it."""
    sentence = sentence[-_LONGEST:]
    found = [*islice(find(sentence), _MOST_MOVES)]
    if not found:
        return []
    moves = [move for *_, move in found]
    if is_question(sentence):
        roles = ["question"] * len(found)
    elif len(found) == _MOST_MOVES or _ELSEWHERE.match(sentence):
        roles = ["aside"] * len(found)
    else:
        roles = _roles(sentence, found)
    named = [*zip(moves, roles, strict=True)]
    # "I have not tried up, so I go up": a move that is stated after its denial is stated.
    return [one for at, one in enumerate(named) if (one[0], "stated") not in named[at + 1 :]]


def _roles(sentence: str, found: list[Named]) -> list[str]:
    hidden = sentence  # without the words of the moves, which are no cues
    for start, end, _ in found:
        hidden = hidden[:start] + "\0" * (end - start) + hidden[end:]
    breaks = [*_BREAK.finditer(hidden)]
    links = [_link(hidden, first, second) for first, second in pairwise(found)]
    roles = []
    for at, (start, end, _) in enumerate(found):
        if at and links[at - 1] == "versus":
            roles.append("denied")
            continue
        after = end + hidden.startswith(":", end)  # "up: a wall" is about up
        stop = min((one.start() for one in breaks if one.start() >= after), default=end + _NEAR)
        before = [one for one in breaks if one.end() <= start]
        roles.append(_role(sentence, hidden, (start, end, stop), before))
    for at, link in enumerate(links):
        pair = roles[at : at + 2]
        if link == "otherwise" and "denied" not in pair:
            roles[at : at + 2] = ["doubt", "doubt"]
        elif link == "joined" and "stated" in pair:  # "I go left, up" names two moves
            roles[at : at + 2] = ["stated", "stated"]
    return roles


def _link(hidden: str, first: Named, second: Named) -> str | None:
    """Return what two moves side by side are to each other."""
    link = _LINK.fullmatch(hidden, first[1], second[0])
    is_same = first[2] == second[2]
    return None if link is None or (link["versus"] and is_same) else link.lastgroup


def _role(
    sentence: str, hidden: str, place: tuple[int, int, int], breaks: list[re.Match[str]]
) -> str:
    """Return what a sentence does with the move at ``place``: its start, end and clause's end."""
    start, end, stop = place
    strong = [one for one in breaks if one["strong"]][-1:]
    near = max(0, start - _NEAR)
    clause = hidden[max([near, *(one.end() for one in breaks[-1:])]) : start]
    part = max([near, *(one.end() for one in strong)])
    rest = hidden[end:stop]
    if _ASIDE.search(clause):
        return "aside"
    if _DOUBT.search(clause) or _DOUBT.search(rest):
        return "doubt"
    if _DENIED_BEFORE.search(clause):
        return "denied"
    if DENIED_AFTER.search(rest):
        return "denied"
    if _PRAISED.match(hidden, end):
        return "stated"
    is_subject = _ABOUT_IT.match(hidden, end)
    is_lead = not breaks or (breaks[-1] in strong and not strong[0]["reason"])
    is_last = not hidden[end:].strip(" .!*_`\"'")
    is_bare = not any(map(str.isalnum, clause))
    if is_bare and (is_last or (is_lead and not is_subject)):
        return "stated"
    if _COMMIT.search(sentence[part:end]):
        return "stated"
    return "aside" if is_subject else "mention"
