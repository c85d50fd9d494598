"""Stage 3: the one move that a text states, or the reason why it states none.

A *finder* gives every move that a sentence names, with its place. ``judge`` then asks what the
clause around each of them does with it (``_role``): deny it, doubt it, ask, speak of something else
(an *aside*), state it, or merely mention it. One stated move is played; so is a mention if nothing
else is named. All bounds are fixed, so the work is bounded.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple, TypeVar

Named = tuple[int, int, str]
"""Start, end and the move in the game's own words."""
Find = Callable[[str], Iterable[Named]]
S = TypeVar("S")
WINDOW = 8000
"""Characters of a reply, from its end, in which a move is looked for."""
_MOST_SENTENCES, _MOST_MOVES, _LONGEST, _NEAR = 80, 9, 600, 160
"""Sentences, moves in a sentence, characters of a sentence, and around a move, that are read."""

# --- finders -----------------------------------------------------------------------------------

_UNITS = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_ORDINALS = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth"
_VALUES = {word: at for at, word in enumerate(f"zero|{_UNITS}|{_TEENS}".split("|"))}
_VALUES |= {word: 10 * at for at, word in enumerate(_TENS.split("|"), 2)}
_VALUES |= {word: at for at, word in enumerate(_ORDINALS.split("|"), 1)}
_CARDINAL = rf"(?:(?:{_TENS})(?:[ -](?:{_UNITS})\b)?+|zero|{_TEENS}|{_UNITS})"
# "One" is mostly no number: "the middle one".
_ONE = r"(?<=\bto )|(?<=\bis )|(?<=\bat )|(?<=\bsay )|(?<=comes )|(?<=number |column |square )|\A"
_NUMBER = re.compile(
    r"(?i)(?<![\w.])(?<!\d,)(?<!--)(?:(?<!-)[-−](?=\d)|negative (?=\d))?(?:\d{1,3}(?:,\d{3})+"
    r"|\d{1,18})(?=(?:st|nd|rd|th)\b|(?!\w|[.,]\d|\s?%))|\b(?<!minus )(?!one\b)"
    rf"{_CARDINAL}\b(?!-)|(?:{_ONE})one\b(?=\W*\Z)|\b(?:{_ORDINALS})(?= column\b)"
)
_MAYBE_NUMBER = re.compile(rf"\d|{'|'.join(_VALUES)}")  # in small letters: it is faster
_N = rf"(?:(?<!\d)-?\d++|\b{_CARDINAL}\b)"
_TERM = "(?:plus|minus|times|add(?:ing)?|subtract(?:ing)?)"
# Numbers that are no answer, in this order: rows of a board and ranges, counts aloud, counted
# things, limits and names, terms that are spoken.
_NO_ANSWER = re.compile(
    rf"(?i){_N}(?:(?:[ \t|.]++|[-–]| (?:to|of|in|out of|by) ){_N})++|[\[(]\d++,\s?\d++[\])]"
    rf"|(?:\b(?:between|of|into) {_N}|{_N}(?:, {_N})+,?) (?:and|or) {_N}|{_N}(?:, {_N}){{2,}}"
    rf"|{_N} (?:(?:more|free|possible|other|different|remaining|open|empty|hidden) \w+"
    "|(?:in a )?(?:turn|word|letter|number|column|row|line|cell|square|step|guesse?|move|dis[kc]"
    "|option|choice|live|mine|peg|digit|vowel|tile|way|half|corner|mark|candidate"
    r"|possibilitie)s?(?! (?:is|must)))\b"
    rf"|\b(?:are|has|have|get|need|with|and|all|only) {_N} (?!times|occ|inst)[a-z]{(3,)}s\b"
    r"|\b(?:(?:\w+er|less|more) than|above|below|under|over|at (?:most|least)"
    "|(?<!round )up to|around|(?<!is )about|until|connect|disk|rows?|turn|count(?:ing)? to"
    rf"|{_TERM}) {_N}(?: (?:and|of) {_N})?|{_N}(?=,? (?:then )?{_TERM} {_N})"
)
_SUM = re.compile(  # also without a result, so that a long one is gone over once
    r"((?:(?<![\w)])[-−])?(?<!\d)\d++(?:\)?\s?(?:[-+*×÷−]|//?)\s?\(?\d++)++)\)?(\s?(?:=|\b(?:is|equals|gives|makes)\b))?"
)


def find_numbers(text: str) -> Iterator[Named]:
    """Yield the whole numbers that ``text`` may give as an answer, in digits or words.

    >>> [move for *_, move in find_numbers("3 + 4 = 7, so 7 and -2, not 3.5 or 20%. 1 2 3")]
    ['7', '7', '-2']
    >>> [move for *_, move in find_numbers("There are 9 turns, so I guess twenty-one.")]
    ['21']
    """
    if _MAYBE_NUMBER.search(text.lower()) is None:
        return
    skipped = () if text.isdecimal() else no_results(text)
    for one in _NUMBER.finditer(text):
        if one.start() not in skipped:
            yield one.start(), one.end(), _in_digits(one[0])


def _in_digits(said: str) -> str:
    if said[-1].isalpha():
        return str(sum(_VALUES[word] for word in re.findall("[a-z]+", said.lower())))
    return re.sub("[−a-zA-Z ]+", "-", said).replace(",", "")


def no_results(text: str) -> set[int]:
    """Return the places of numbers that lead up to a result or count things."""
    spans = [one.span() for one in _NO_ANSWER.finditer(text)]
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


_SIDE = "(?:left|right)"
_IDIOM = re.compile(
    r"(?i)\b(?:turns|one turn|steps|lives|moves|nothing|what|\d+ (?!goes|moves|slides)[a-z]+s)"
    r" (?:is |are )?left\b|\bleft\s?:|\bup (?:to (?:\d|you|me|now)|there)\b"
    r"|\b(?:give|set|end|make|look\w*|(?:it|score|number|count) goes|add|back|keep|open|time is)"
    r" (?!like)(?:\w+ )?up\b|\b(?:break|comes|slow|calm|narrow|count|cut) (?:\w+ )?down\b"
    r"|\b(?:all|you'?re|you are|that'?s|quite|looks|feels|way is) right\b"
    r"|^\W*(?:okay, )?right,(?= (?:i|so|let|the|my|now|that|we)\b)"
    r"|(?<=(?:up|wn|ft) is )right(?=\W*$)|(?<!go )\bright (?:now|away|after|before|here|there)\b"
    rf"|(?<!to )\b(?:the|my|your) {_SIDE} (?=[a-z])|\b(?:from|of|in|on|at) the {_SIDE}\b"
    rf"(?: and {_SIDE}\b)?|\b(?:top|bottom|upper|lower|far)[ -]+{_SIDE}\b"
    rf"|\b{_SIDE}(?= of\b|-?(?:most|hand))"
)
_DIRECTIONS = re.compile("(?i)up|down|left|right")


def without_idioms(text: str) -> str:
    r"""Return ``text`` without words that are no direction: "Turns left: 5", "I give up".

    >>> without_idioms("the right move").count("\0"), without_idioms("go right")
    (10, 'go right')
    """
    if _DIRECTIONS.search(text) is None:
        return text
    return _IDIOM.sub(lambda found: "\0" * len(found[0]), text)


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
        if not _DIRECTIONS.fullmatch(said) or without_idioms(text)[one.start()] != "\0":
            yield one.start(), one.end(), names[" ".join(said.split())]


def find_pattern(text: str, pattern: str) -> Iterator[Named]:
    """Yield what matches a regex of moves, where it stands as words of its own.

    >>> list(find_pattern("try a1, not ba1", "[a-h][1-8]"))
    [(4, 6, 'a1')]
    """
    before, after = r"(?<![\w.-])(?<!\d[ ,])(?<!\d, )", r"(?![\w-]|\.\d|[ ,]{1,2}[-.]?\d)"
    for one in re.finditer(f"{before}(?:{pattern}){after}", text):
        yield one.start(), one.end(), one[0]


@lru_cache(maxsize=4096)
def find_with(find: Callable[[str, S], Iterable[Named]], setting: S) -> Find:
    """Return a finder with its setting, the same one for the same setting.

    >>> list(find_with(find_phrases, ("hit", "stand"))("I hit."))
    [(2, 5, 'hit')]
    """
    return lambda text: find(text, setting)


# --- the words that say what a sentence does with a move ----------------------------------------

SENTENCES = re.compile(
    r"(?i)(?:(?<=[.!?;])(?<!\bvs\.)(?<!e\.g\.)[\"'”’)*_]*\s++|\n++|(?<=\.\.\.)\s*+|,?\s++(?=(?:and"
    r"|but) if\b))(?!(?:or|alternatively)\b)"
)
CROSSED_OUT = "❌✖✗✘⛔🚫👎"
_OBSTACLE = r"(?:walls?|holes?|dead end|nowhere|trap|cliff|mine)\b"
_NOT = (
    rf"(?<!why )\bnot\b(?! (?:an? |the )?{_OBSTACLE})|n't\b(?! hurt)|\b(?:never|cannot|neither|nor"
    rf"|far from|nicht|kein|pas|nunca|не)\b|[不没别{CROSSED_OUT}]"
)
_DENIED_BEFORE = re.compile(
    rf"(?i){_NOT}|\0\W*(?:over|than)\b|\b(?:no|without|refus\w+|(?:instead|other|rather) (?:of"
    r"|than)|\w+thing but|against|reject\w*|rul\w+ out|disagree\w*|hate|forget|(?:stop|skip\w*|undo"
    rf"|avoid\w*(?! (?:the |any )?{_OBSTACLE}))(?!.*\bby\b))\b"
    r"|\b(?:unwise|mistake|bad|dangerous|wrong)\b[^,;]{0,20}\bto\b"
)
DENIED_AFTER = re.compile(
    rf"(?i){_NOT}|\bno (?:good|use|way|option|longer)\b|\bno\W{{0,4}}$|(?<!from )\b(?:blocked"
    "|impossible|illegal|invalid|wrong|incorrect|bad|mistake|dangerous|unsafe|useless|wors[et]"
    r"|taken|does nothing|los(?:es?|ing)|fail\w*|deadly|risky)\b|\b(?:hits?|leads?|is|are|'s|see"
    rf"|=)(?:(?!\b(?:no|not|safe|free|away|clear|past|around)\b)[^,;]){{0,24}}\b{_OBSTACLE}"
)
_DOUBT = re.compile(
    r"(?i)\b(?:or|either|maybe|perhaps|might|may|possibly|could(?! only)|also|too|not sure|(?:what"
    r"|how) about|wonder\w*|between(?! \d)|whether|otherwise|depends|if|unless)\b"
)
_ASIDE = re.compile(
    r"(?i)\b(?:if|unless|when|suppose|(?:love|nice) to|went|was|were|had|already|after|before|then"
    r"|later|such as|you(?! \w+ is\b| (?:with|by)\b)|told|said|chose|(?<!second )thought(?! is)"
    r"|(?:mov|tri|play|guess|consider)ed|previous(?:ly)?|is \w+ing|(?:lean|tilt|drift)s"
    r"|dealers?|(?<!there )(?<!we )are|(?:i|we|they) (?:have|need|see|kn[eo]w|like|hope|feel|wish"
    r"|always|usually|only|still|am)(?! to| decided| \w+ing))\b"
)
"""What is supposed, past, or done by others."""
_ELSEWHERE = re.compile(
    r"(?i)\W{0,4}(?:(?:and |but )?(?:then|later|plan|after(?:wards?| (?:that|this))|option \w"
    r"|next (?:turn|time)|from there|once|if|when|unless)\b"
    r"|(?:for )?(?:example|instance|e\.g)\b(?!.*\bbut\b)"
    r"|(?:the |my |your )?(?:opponent|dealer|x|they|you|your \w+|goal|exit|box|target|board"
    r"|map|corridor|wall|hole|ice)\b(?!.*(?:\b(?:i|so|let|therefore)\b|:)))"
)
"""The start of a sentence about later, a condition, an example, or somebody or something else."""
_BREAK = re.compile(
    r"(?i)(?P<lead>(?<!\d)\s[-–—]+\s|(?<=\0)\W{0,3}to\b|\b(?:(?P<result>so(?! is| that)|therefore"
    r"|thus|hence)|and (?=(?:i|we|let|go|move|take|play|pick|choose|try|put)\b)|(?<!ing )but"
    r"|although|though|given|actually|instead(?! of)|in order)\b)|[,:]|\b(?:because|since|as|while"
    r"|which|where|(?<!go )for)\b|(?<=\0)\s(?=(?:i|we|let)\b)|\b(?=it'?s\b|it is\b)"
)
"""Where a clause ends; a lead begins one of its own, and no reason for the one before."""
_ABOUT_IT = re.compile(r"(?i)\W*(?:is|are|was|were|ha[sv]e?|leads?|looks?|seems?|of|and|goes)\b")
"""After a move that the sentence is about, rather than one that it chooses."""
_PRAISED = re.compile(
    r"(?i)[\s*_\"'`”’,)]*(?:is|(?:would|will|should|shall) be|it (?:is|shall be)|it'?s|seems|looks"
    r"|sounds)\s*(?:\w+ ){0,3}?(?:(?:b|saf|short|fast|quick|strong|simpl|easi|clos|wis|smart)est"
    "|right|my|good|nice|great|correct|final|obvious|only|safe|wise|strong|fine|reasonable|sensible|natural"
    "|logical|promising|ideal|perfect|smart|must|hard to|valid|one letter|word|(?:bett|saf|clos"
    "|less|short)er|answer|move|guess|choice|way to|wh(?:at|ere) (?:i|we)|[.!,]|$)"
)
_COMMIT = re.compile(
    r"(?i)\b(?:(?:i|we)(?:'\w+| [a-z]+)|let(?:'?s| us| me)|best|final(?:ly)?|leaves|gives"
    r"|(?:good|natural|sensible|obvious|logical|safest?|smart) \w+ (?:is|would be))\b"
    r"|(?:^\W*|(?<=[,:]) ?|\b(?:and|to) )(?:go|move|choose|pick|guess|play|take|place|put|try|start"
    r"|\w+ing)\b|\b(?:move|action|answer|guess|choice|step|result|total|sum|it|that"
    r"|my (?:\w+ ){0,2}\w+)\b[^,;]{0,60}(?:\b(?:is|be|should|will)\b|'s\b|:|=)"
)
"""What chooses a move, where others are named as well."""
_CHOSEN = re.compile(r"(?i)\W*as (?:my|our|the (?:\w+ )?(?:answer|move|guess|choice))\b")
_THAT = re.compile(
    r"(?i)\b(?:i(?:'ll|'d)?|let(?:'?s| me)|we)\b(?: \w+){0,2}? (?:take|play|choose|pick|try|do|use"
    r"|go|mark|guess|say)(?: for| with)? (?:it|that|this|there)\b|\b(?:that|this|it)(?:'s| is)"
    r" (?:my|what|the one)\b"
)
"""After a move: it is the one that is played."""
_WOULD = re.compile(r"(?i)\W*(?:would|could|means|takes|needs|requires)\b")
_LATER = re.compile(r"(?i)\W{0,4}next,? (?:i|we)\b")
_WHY_NOT = re.compile(r"(?i)\bwhy not\W*\Z")
_BUT = re.compile(r"(?i),? ?\b(?:but|although|though|yet)\b")
_BRACKETS = re.compile(r"(?i)\((?!or\b)[^()]*\)")
_JOINED = re.compile(
    r"(?i)[\s,*_`\"'”’]*(?:(?:and|then|or(?: maybe)?|vs\.?|otherwise|as well as|followed by"
    r"|after (?:that|this)|[+&→]|[-=]?>)[\s,*_`\"'“‘]*)*"
)
_CONCLUDES = re.compile(
    r"(?i)\b(?:so|therefore|thus|hence|final|actually|gives|answer|result|total|begin|start"
    r"|first)\b"
)


class Reading(NamedTuple):
    """A move that a reply may mean, or why it means none."""

    move: str | None = None
    how: str = "named"
    """The kind of a marker, last line or named; or why there is no move: two, doubt, denial or
    question."""
    problem: str = ""
    """What to tell the player where there is no move."""
    is_final: bool = False
    """Whether nothing else may be read if this cannot be played."""


# --- the judge -----------------------------------------------------------------------------------


def _asks(text: str) -> bool:
    return text.rstrip("\"'`”’)]*_ ").endswith(("?", "？")) and not _WHY_NOT.search(text)


def is_open(text: str) -> bool:
    """Return whether ``text`` asks or crosses out what it names.

    >>> is_open("**up?**"), is_open("~~up~~"), is_open("\u274c up"), is_open("up!")
    (True, True, True, False)
    """
    crossed_out = not text.isascii() and any(sign in text for sign in CROSSED_OUT)
    return "~~" in text or crossed_out or _asks(text)


def judge(
    text: str,
    find: Find,
    is_quote: Callable[[str], bool] = lambda text: False,
    mentions: bool = False,
) -> Reading:
    """Return the one move that ``text`` states, or why there is none; not final if it names none.

    ``find`` gives the moves of a sentence, ``is_quote`` says whether it repeats what the model was
    told, and with ``mentions`` a move that is spoken of counts, if others are denied or doubted.
    """
    parts = SENTENCES.split(text[-WINDOW:])[-_MOST_SENTENCES:]
    said, stated = _stated([one for one in parts if one and not is_quote(one)], find)
    named = said["mention"] | said["aside"]
    if not mentions:
        named |= said["doubt"] | said["question"]
        named |= said["denied"] if named & (said["doubt"] | said["question"]) else set()
    if not stated and len(named) == 1 and (mentions or said["mention"]):  # nothing else is named
        stated = named
    if len(stated) == 1 and not stated & said["denied"]:
        return Reading(next(iter(stated)), is_final=True)
    for how, found, problem in (
        ("two", stated if len(stated) > 1 else (), "Your reply names more than one move: {}."),
        ("denial", stated, "I read {} in your reply, but also not to play it."),
        ("doubt", said["doubt"], "I read {} in your reply, but in doubt."),
        ("question", said["question"], "I read {} in your reply, but as a question."),
        ("denial", said["denied"], "I read {} in your reply, but as what not to play."),
    ):
        if found:
            problem = problem.format(" and ".join(sorted(found)[:3]))
            return Reading(None, how, f"{problem} Name the move to play.", is_final=True)
    return Reading()


def _stated(sentences: Iterable[str], find: Find) -> tuple[dict[str, set[str]], set[str]]:
    """Return the moves by their roles, and those that are stated in the end."""
    said: dict[str, set[str]] = defaultdict(set)
    stated: set[str] = set()
    before: set[str] = set()  # what the last sentence spoke of
    for sentence in sentences:
        if stated and _LATER.match(sentence):
            continue
        roles = _weigh(sentence, find)
        if not roles and len(before) == 1 and _THAT.search(sentence):  # "Up is free. I take it."
            roles = [(move, "stated") for move in before]
        for move, role in roles:
            said[role].add(move)
        before = {move for move, role in roles if role in ("aside", "mention")}
        if moves := said.pop("stated", set()):
            replaces = len(moves) == 1 and _CONCLUDES.search(sentence)
            stated = moves if replaces else stated | moves
    return said, stated


def _weigh(sentence: str, find: Find) -> list[tuple[str, str]]:
    """Return each move in a sentence with what the sentence does with it."""
    sentence = sentence[-_LONGEST:]
    found = [*islice(find(sentence), _MOST_MOVES)]
    if not found:
        return []
    asides = {at for one in _BRACKETS.finditer(sentence) for at in range(*one.span())}
    outside = [one for one in found if not {one[0] - 1, one[1]} <= asides]
    hidden = sentence  # without the words of the moves, which are no cues
    if outside and asides:  # "up (down is a wall)"
        found, hidden = outside, _BRACKETS.sub(lambda one: " " * len(one[0]), sentence)
    for start, end, _ in found:
        hidden = hidden[:start] + "\0" * (end - start) + hidden[end:]
    breaks = [*_BREAK.finditer(hidden)]
    roles = [_role(sentence, hidden, start, end, breaks) for start, end, _ in found]
    is_part = any(map(str.isalnum, hidden))
    if _asks(sentence):
        roles = ["question"] * len(found)
    elif len(found) == _MOST_MOVES or (is_part and _ELSEWHERE.match(sentence)):
        roles = [one if one == "result" else "aside" for one in roles]
    if "result" in roles:  # "5 looks good, 6 better, so 6"
        role = {"stated": "aside", "result": "stated"}
        roles = [role.get(one, one) for one in roles]
    for at, (first, second) in enumerate(pairwise(found)):
        if "stated" in roles[at : at + 2] and _JOINED.fullmatch(hidden, first[1], second[0]):
            roles[at : at + 2] = ["stated", "stated"]  # "I go left, up" names two moves
    is_one = {*roles} <= {"aside", "mention"} and len({move for *_, move in found}) == 1
    if is_one and _THAT.search(hidden, found[-1][1]):  # "up is free, so I take it"
        roles[-1] = "stated"
    named = [(move, role) for (*_, move), role in zip(found, roles, strict=True)]
    # "I have not tried up, so I go up": a move that is stated after its denial is stated.
    return [one for at, one in enumerate(named) if (one[0], "stated") not in named[at + 1 :]]


def _role(sentence: str, hidden: str, start: int, end: int, breaks: list[re.Match[str]]) -> str:
    """Return what a sentence does with the move from ``start`` to ``end``."""
    after = end + hidden.startswith(":", end)  # "up: a wall" is about up
    stop = next((one.start() for one in breaks if one.start() >= after), end + _NEAR)
    last = next((one for one in reversed(breaks) if one.end() <= start), None)
    begin = max(start - _NEAR, last.end() if last else 0)
    clause, rest = hidden[begin:start], hidden[end:stop]
    if _ASIDE.search(clause) and not _CHOSEN.match(hidden, end):
        return "aside"
    if _DOUBT.search(clause) or _DOUBT.search(rest):
        return "doubt"
    if _DENIED_BEFORE.search(clause) or DENIED_AFTER.search(rest):
        return "denied"
    is_praised = _PRAISED.match(hidden, end) and not _BUT.match(hidden, stop)  # "up is fine, but"
    if _WOULD.match(hidden, end) and not is_praised:
        return "aside"
    is_subject = after > end or _ABOUT_IT.match(hidden, end)
    is_whole = last is None or last["lead"] or not hidden[end:].strip(" .!*_`\"'")
    is_result = last and last["result"]
    if is_whole and not is_subject and (is_result or not any(map(str.isalnum, clause))):
        return "result" if is_result else "stated"
    if is_praised or _COMMIT.search(sentence, begin, end):
        return "result" if is_result else "stated"
    return "aside" if is_subject and after == end else "mention"
