"""Stage 3: the one move that a text names, or the reason why it names none.

A *finder* gives every move that a sentence names, with its place. ``judge`` then asks what each
sentence does with it: state, deny, doubt, ask, or merely mention. One stated move is played.
Only the last ``WINDOW`` characters count, and all bounds are fixed, so the work is bounded.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from llm_gym.reading.markup import undress

Named = tuple[int, int, str]
"""Start, end and the move in the game's own words."""
Find = Callable[[str], Iterable[Named]]
WINDOW = 8000
"""Characters of a reply, from its end, in which a move is looked for."""
_MOST_SENTENCES, _MOST_MOVES, _LONGEST, _NEAR = 80, 9, 600, 160
"""Sentences, moves in a sentence, characters of a sentence, and around a move, that are read."""

CROSSED_OUT = "❌✖✗✘⛔🚫👎"

# --- finders -----------------------------------------------------------------------------------

_NUMBER = re.compile(
    r"(?<![\w.])(?<!\d,)(?<!--)(?:(?<!-)[-−](?=\d))?(?:\d{1,3}(?:,\d{3})+|\d{1,18})(?=(?:st|nd|rd"
    r"|th)\b|(?!\w|[.,]\d|\s?%))"
)
# Numbers that are no answer: terms of a sum before its result, rows of a board, ranges, counts
# aloud, limits ("less than 10") and counted things ("9 turns", "4 in a row").
_THINGS = (
    r"(?:more |free |possible |other |different |remaining |open |empty |hidden |in a )?(?:turn"
    r"|word|letter|number|column|row|line|cell|square|step|guess|guesse|move|disk|disc|piece"
    r"|possibilit|option|position|choice|live|mine|peg|digit|game|point|vowel|tile|way|half|halve"
    r"|corner|edge)(?:ies|y|s)?\b(?! (?:is|should|must))"
)
_NO_ANSWERS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:-|(?<!\d))\d++(?:[ \t|.]+-?\d++)++",
        r"(?<![\w.-])\d++(?:,\s\d++){2,}+(?:,?\s(?:and|or)\s\d++)?|\b\d++(?:,\s\d++)++,?\s(?:and"
        r"|or)\s\d++",
        r"(?<![\w.-])\d++[-–]\d++(?![\w-])(?!\s?=)|[\[(]\d++,\s?\d++[\])]|\(\d++\s?\+\s?\d++\)",
        r"\b(?:from|range(?:\s\w{1,4})?|between|of)\s\d++\s(?:to|and)\s\d++|\b\d++\sto\s\d++",
        r"\b(?:less|more|greater|higher|lower|fewer|larger|bigger|smaller) than \d++|\b(?:above"
        r"|below|under|over|at most|at least|up to|around|about|exceeds?|until) \d++",
        r"\b\d++ (?:of|in|out of|by) \d++|\b\d++/\d++\s?=",
        rf"(?<!number )(?<!square )(?<!column )\b\d++ {_THINGS}",
        r"\b(?:disk|rows?|turn) \d++|\b(?:step|guess|try|move) #?\d++(?=\s?[:.)]\s?\S)",
    )
]
# Matched whether or not a result follows, so that a long chain is gone over once.
_SUM = re.compile(
    r"((?<!\d)\d++(?:\s?[-+*/×÷−]\s?\d++)++)(\s?(?:=|\bis\b|\bequals\b|\bgives\b|\bmakes\b))?"
)
_DIGIT, _LETTERS = re.compile(r"\d"), re.compile("[a-z]+")
_CARDINALS = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen"
    "|sixteen|seventeen|eighteen|nineteen|twenty"
)
_ORDINALS = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth"
_WORDS = {word: str(at) for at, word in enumerate(_CARDINALS.split("|"))}
_WORDS |= {word: str(at) for at, word in enumerate(_ORDINALS.split("|"), 1)}
_WORD_NUMBER = re.compile(
    rf"\b(?!one\b)(?:{_CARDINALS})(?=\s*(?:[^\w\s-]|$|(?:times|first|because|as|since|please|next"
    rf"|now|is|a'?s)\b))|(?<=number )one\b|\b(?:{_ORDINALS})(?= column\b)",
    re.IGNORECASE,
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
    found: list[Named] = []
    if _DIGIT.search(text):  # most sentences have neither digits nor such words
        skipped = no_results(text)
        found = [
            (one.start(), one.end(), one[0].replace("−", "-").replace(",", ""))
            for one in _NUMBER.finditer(text)
            if one.start() not in skipped
        ]
    if not _WORDS.keys().isdisjoint(_LETTERS.findall(text.lower())):
        found += [(*one.span(), _WORDS[one[0].lower()]) for one in _WORD_NUMBER.finditer(text)]
    return apart(found)


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
    r"\b(?:turns|one turn|steps|lives|moves|nothing|what|\d+) (?:is |are )?left\b|\bleft\s*:"
    r"|\bleft (?:over|to (?:do|go|play)|with|column|side)\b|\bup (?:to (?:\d|you|me|now)|there)\b"
    r"|\b(?:give|set|end|make|look|looking|goes|add|back|keep|line|open|time is) (?:\w+ )?up\b"
    r"|\b(?:break|slow|calm|write|narrow|count|cut) (?:\w+ )?down\b|\b(?:all|you'?re|you are"
    r"|that'?s|quite|which way is) right\b|^\W*(?:okay, )?right,(?=\s+(?:i|i'?m|i'?ll|so|let'?s"
    r"|let|the|my|now|then|that|we|this)\b)|(?<!go )(?<!move )(?<!step )\bright (?:now|away|after"
    r"|before|here|there|next to|answer|move|corner|side|edge|order|way|one|choice|thing"
    r"|direction|place|decision|option)\b|\b(?:(?:(?<!move )is|are|walls?|holes?|lies|exit"
    r"|somewhere|far|box) (?:\w+ )?to|from|of|in|on|at) (?:the|its|your|my) (?:left"
    r"|right)\b(?: and (?:the )?(?:left|right)\b)?|\b(?:left|right|up|down)(?=\s*-\s*(?:left"
    r"|right|up|down|most|hand)\b)|\b(?:top|bottom|upper|lower)[ -]+(?:left|right)\b",
    re.IGNORECASE,
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
    r"(?<=[.!?;])(?<!\bvs\.)(?<!e\.g\.)[\"'”’)*_]*\s+|\n+|(?<=\.\.\.)"
    r"|,?\s+(?=(?:and|but) if\b)"
)
_OBSTACLE = r"(?:walls?|holes?|dead end|nowhere|trap|cliff|mine)\b"
_NOT = (
    rf"\b(?:not|isn'?t)\b(?! (?:an? |the )?{_OBSTACLE})|n't\b|\b(?:never|cannot|neither|nor"
    rf"|far from|rul(?:e|ed|ing) out|nicht|kein|pas|nunca|не)\b|[不没别{CROSSED_OUT}]"
)
DENIED_BEFORE = re.compile(
    rf"{_NOT}|\b(?:no|without|refus\w+|instead of|rather than|other than|(?:any|every)thing but"
    rf"|against"
    r"|reject\w*|disagree\w*|hate|forget|(?:avoid\w*|stop|skip\w*|undo)(?!.*\bby\b))\b"
    r"|\b(?:unwise|mistake|bad idea|dangerous|wrong)\b[^,;]{0,20}\bto\b",
    re.IGNORECASE,
)
DENIED_AFTER = re.compile(
    rf"{_NOT}|\bno (?:good|use|way|option|longer)\b|\bno\W{{0,4}}$"
    rf"|(?<!from )(?<!avoid )(?<!avoids )\b"
    r"(?:blocked|impossible|illegal|invalid|wrong|incorrect|bad|mistake|dangerous|unsafe|useless"
    r"|worse|worst|taken|does nothing|los(?:es?|ing)|fail\w*|deadly|terrible|risky)\b|\b(?:hits?"
    r"|bumps?|runs?|leads?|falls?|is|are|'s|see|=)"
    rf"(?:(?!\b(?:no|not|safe|free|away|clear|past|around)\b|n't)[^,;]){{0,24}}\b{_OBSTACLE}",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:or|either|maybe|perhaps|might|may|possibly|could|not sure|no idea|(?:what|how) about"
    r"|wonder\w*|between(?! \d)|versus|vs|whether|otherwise|depends|decide between)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\b(?:if|unless|when|suppose|went|moved|tried|played|guessed|chose|previous(?:ly)?"
    r"|last (?:time|turn)|already|was|were|had|before (?:i|we|you)|such as|you (?:play|move|go"
    r"|said|could|can|have|need|must)|said|(?:initially|originally|at first)(?!,? (?:planned|let"
    r"|i (?!would|chose)))|someone|is (?:falling|tilting|drifting|leaning)|some (?:players"
    r"|people)|consider(?:ed|ing)|(?:i|we) thought|thinking (?:about|of)|dealers? (?:\w+ )?"
    r"|options are|(?:opponent|enemy|x) (?:\w+ ){0,2}?(?:will|would|can|could|may|plays?|takes?"
    r"|took|is|has|gets))\b",
    re.IGNORECASE,
)
_PURPOSE = re.compile(r"[\s*_\"'`”’]*(?:in order |so as )?to\b", re.IGNORECASE)
_BREAK = re.compile(
    r"(?P<strong>\s[-–—]+\s|\b(?:because|since|as|(?<!ing )(?<!all )but|so|while|although|though"
    r"|which(?! is)|where|therefore|thus|hence|given|(?<!go )(?<!going )for|after|actually"
    r"|instead(?! of))\b)|[,:(]|\bthen\b",
    re.IGNORECASE,
)
_DOING = (
    r"(?:go|mov|move|choos|pick|guess|play|tak|plac|putt?|try|say|head|select|dropp?|click|push"
    r"|step|walk|us|start|beginn?|swip|shift|slid|reveal|block|flag|hitt?|stand|explor|answer"
    r"|press|pull|turn|opp?en)"
)
_NO_MOVE = (
    r"(?!(?:have|had|need|see|know|knew|was|were|can|could|might|may|like|hope|lose|win|wonder"
    r"|notice|wish|fall|feel|do|did|don|cannot|won|am (?!\w+ing)|always|never|usually|only|still"
    r"|would|will not|love|hate|mean)\b)"
)
_COMMIT = re.compile(
    rf"\b(?:i'?ll|i will|i'?d|i would|i shall|i should|let'?s|let us|let me|please|we'?ll|okay|ok"
    rf"|yes|(?:i|we)(?: \w+ly| just| then| now)? (?:must|need to|have to|had better"
    rf"|{_NO_MOVE}[a-z]+)|(?:i'?m|we'?re|i am|we are) (?:\w+ly )?\w+ing|(?:^|[,:] ?|\band "
    rf"|\bto )(?:\w+ly )?{_DOING}(?:e"
    r"|t|ing)?|(?:we|player) should|final(?:ly)?|best|safest|leaves|it is safe|(?:comes"
    r"|adds up) to|says|means|occurs?|appears?|equals?|gives|makes?|midpoint|halfway|first|next)\b"
    r"|\b(?:move|action|answer|guess|choice|option|decision|step|result|expression|number|word"
    r"|letter|total|direction|instinct|opening|thought|middle|square|plan|reply"
    r"|it)\b[^,;]{0,60}(?:\b(?:is|be|would|should|will|are|has)\b|'s\b|:|=)|\b(?:o (?:at|goes)"
    r"|goes|by)\b|(?:[:=>→]|\bthere (?:are|is))\s{0,3}[*\"'`]{0,3}\w*$",
    re.IGNORECASE,
)
_STATES_NOTHING = re.compile(
    r"\W{0,4}(?:(?:and |but )?(?:then|later|plan|afterwards?|after (?:that|this)|next (?:turn"
    r"|time|i)|from there|once|if|when|unless|should (?:it|that))\b|(?:for )?(?:example|instance"
    r"|e\.g)\b(?! of)(?!.*\bbut\b)|(?:the |my |your )?(?:opponent|dealers?|x|they|you|he|she|hole"
    r"|goal|exit|box|target|board|map)\b(?!.*(?:\b(?:i|so|let|therefore|i'll|i'd)\b|:)))",
    re.IGNORECASE,
)
"""The start of a sentence about later, a condition, an example, or somebody or something else."""
_STARTS = re.compile(
    r"[\s*_\"'`“‘(\[=>→-]*(?:(?:yes|okay|ok|alright|well|sure|hm+|so|now|therefore|square|cell"
    r"|column|position|number|letter|word|the|my|o|at|in|definitely|probably)\W+)*",
    re.IGNORECASE,
)
_ABOUT_IT = re.compile(
    r"[\s*_\"'`”’]*(?:is|are|was|were|has|have|leads?|looks?|seems?|side|of|and|goes|contains?"
    r"|there)\b",
    re.IGNORECASE,
)
_PRAISED = re.compile(
    r"[\s*_\"'`”’,)]*(?:is|would be|will be|it (?:is|shall be)|it'?s|seems|looks|sounds"
    r"|should be)\s*(?:the\s+|my\s+|a\s+|to\s+be\s+|like\s+){0,2}(?:best|right|my|good|correct"
    r"|final|obvious|only|safe\w*|answer|move|guess|choice|action|way|what i|wise\w*|strong\w*"
    r"|better|fine|one letter|$|[.!,])",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"[\s,*_`\"'”’]*(?:(?:and|then|as well as|followed by|after (?:that|this)|\+|&|[-=]?>|→|/|\|)"
    r"[\s,*_`\"'“‘]*)*",
    re.IGNORECASE,
)
_ELSE = re.compile(r"[\s,*_`\"'”’]*(?:/|\||(?:or|otherwise|else)\b[\s\w]{0,20})[\s*_`\"'“‘]*", re.I)
_VERSUS = re.compile(
    r"[\s,*_`\"'”’]*(?:and |but )?(?:not|over|rather than|instead of|than(?= ))"
    r"(?:\s+(?:to|go|going|move|moving|the|with|at|on))*[\s*_`\"'“‘]*",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"\b(?:so|therefore|thus|hence|final(?:ly)?|i (?:pick|choose|take)|actually|(?:answer|result"
    r"|total) is|begin|start|first)\b",
    re.IGNORECASE,
)
_OR = re.compile(r"[\s*_\"'`.,…-]*(?:or|alternatively)\b", re.IGNORECASE)
_REASONS = ("because", "since", "as", "while", "which", "where", "for")
_QUOTE_OPEN, _QUOTE_CLOSE = tuple("\"'`*“‘[<("), tuple("\"'`*”’]>)")


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
        mentions: Whether the only move that is mentioned counts as stated.
    """
    said: dict[str, set[str]] = defaultdict(set)
    stated: list[tuple[set[str], bool]] = []  # by sentence, and whether it concludes
    for sentence in SENTENCES.split(text[-WINDOW:])[-_MOST_SENTENCES:]:
        if not sentence or is_quote(sentence):
            continue
        roles = weigh(sentence, find)
        if stated and _OR.match(sentence):
            said["doubt"].update(*(moves for moves, _ in stated), (move for move, _ in roles))
            stated.clear()
            continue
        for move, role in roles:
            said[role].add(move)
        if moves := {move for move, role in roles if role == "stated"}:
            stated.append((moves, _CONCLUDES.search(sentence) is not None))
    if mentions and not stated and len(said["mention"]) == 1:
        stated = [(said["mention"], False)]
    return _decide(stated, said)


def _decide(stated: list[tuple[set[str], bool]], said: dict[str, set[str]]) -> Reading:
    single = [moves for moves, _ in stated if len(moves) == 1]
    moves = set().union(*(single or [moves for moves, _ in stated]))
    if len(moves) > 1 and len(stated[-1][0]) == 1 and stated[-1][1]:
        moves = stated[-1][0]
    if len(moves) > 1:
        named = " and ".join(sorted(moves)[:3])
        return _refused(f"Your reply names more than one move: {named}. Name one.", "two")
    if moves and not moves & said["denied"]:
        return Reading(next(iter(moves)), is_final=True)
    for role, found, how in (
        ("denial", moves, "also says not to play it"),
        ("doubt", said["doubt"], "in doubt"),
        ("question", said["question"], "as a question"),
        ("denial", said["denied"], "as what not to play"),
    ):
        if found:
            named = " and ".join(sorted(found)[:3])
            told = f"I read {named} in your reply, but {how}. Name the move to play."
            return _refused(told, role)
    return Reading()


def _refused(problem: str, how: str) -> Reading:
    return Reading(None, how, problem, is_final=True)


def weigh(sentence: str, find: Find) -> list[tuple[str, str]]:
    """Return each move in a sentence with what the sentence does with it."""
    sentence = sentence[-_LONGEST:]
    found = [*islice(find(sentence), _MOST_MOVES)]
    moves = [move for *_, move in found]
    if not found:
        return []
    if is_question(sentence):
        return [(move, "question") for move in moves]
    if len(found) == _MOST_MOVES or _STATES_NOTHING.match(sentence):
        return [(move, "mention") for move in moves]
    roles = _roles(sentence, found)
    _join(sentence, found, roles)
    named = [*zip(moves, roles, strict=True)]
    # "I have not tried up, so I go up": a move that is stated after its denial is stated.
    return [one for at, one in enumerate(named) if (one[0], "stated") not in named[at + 1 :]]


def _roles(sentence: str, found: list[Named]) -> list[str]:
    inside = {at for start, end, _ in found for at in range(start, end)}
    breaks = [one for one in _BREAK.finditer(sentence) if one.start() not in inside]
    lesser = [False] + [
        first[2] != second[2] and _VERSUS.fullmatch(sentence, first[1], second[0]) is not None
        for first, second in pairwise(found)
    ]
    roles = []
    for at, (start, end, _) in enumerate(found):
        if lesser[at]:
            roles.append("denied")
            continue
        after = end + (sentence[end : end + 1] == ":")  # "up: a wall" is about up
        stop = min((one.start() for one in breaks if one.start() >= after), default=end + _NEAR)
        if lesser[at + 1 : at + 2] == [True]:
            stop = end
        before = [one for one in breaks if one.end() <= start]
        roles.append(_role(sentence, start, end, stop, before))
    return roles


def _join(sentence: str, found: list[Named], roles: list[str]) -> None:
    """Change the roles of moves that stand side by side, by what stands between them."""
    for at in range(1, len(found)):
        between = found[at - 1][1], found[at][0]
        pair = {roles[at - 1], roles[at]}
        if _ELSE.fullmatch(sentence, *between):
            if "denied" not in pair:
                roles[at - 1] = roles[at] = "doubt"
        elif "stated" in pair and (joined := _JOINED.fullmatch(sentence, *between)):
            is_next = "then" in joined[0].lower()  # "I go left, up" names two moves
            if is_next or not _ABOUT_IT.match(sentence, found[at][1]):
                roles[at - 1] = roles[at] = "stated"


def _role(sentence: str, start: int, end: int, stop: int, breaks: list[re.Match[str]]) -> str:
    strong = [one for one in breaks if one["strong"]]
    clause = sentence[max(breaks[-1].end() if breaks else 0, start - _NEAR) : start]
    part = sentence[max(strong[-1].end() if strong else 0, start - _NEAR) : start]
    rest = sentence[end:stop]
    if _ASIDE.search(clause):
        return "denied" if DENIED_BEFORE.search(clause) else "mention"
    if _DOUBT.search(clause) or _DOUBT.search(rest):
        return "doubt"
    if DENIED_BEFORE.search(clause):
        return "denied"
    if _PURPOSE.match(rest):
        rest = ""
    if _PRAISED.match(sentence, end) and not DENIED_BEFORE.search(rest):
        return "stated"
    if DENIED_AFTER.search(rest):
        return "denied"
    reason = bool(strong) and strong[-1][0].lower() in _REASONS
    own = not clause.strip() and not sentence[end:].strip(" .!*_`\"'")  # "left is a wall, up"
    own = own or (bool(strong) and not part.strip(" ,:") and not reason)
    return "stated" if own or _is_stated(sentence, start, end, part) else "mention"


def _is_stated(sentence: str, start: int, end: int, part: str) -> bool:
    """Return whether a move that nothing speaks against is meant to be played."""
    if sentence[:start].endswith(_QUOTE_OPEN) and sentence.startswith(_QUOTE_CLOSE, end):
        return True
    if undress(sentence) == undress(sentence[start:end]):
        return True
    if _STARTS.fullmatch(sentence, 0, start) and not _ABOUT_IT.match(sentence, end):
        return True
    if not part.isascii() and not re.search("[A-Za-z]", part):
        return True  # of other languages only the denials are known
    return _COMMIT.search(part + sentence[start:end]) is not None
