"""Stage 3: the one move that a text names, or the reason why it names none.

A *finder* gives every move that a sentence names, with its place. ``judge`` then asks what each
sentence does with it: state, deny, doubt, ask, or merely mention. One stated move is played.
Only the last ``WINDOW`` characters count, and all bounds are fixed, so the work is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from llm_gym.reading.markup import undress

Named = tuple[int, int, str]
"""Start, end and the move in the game's own words."""
Spans = list[tuple[int, int]]
Find = Callable[[str], Iterable[Named]]
WINDOW = 8000
"""Characters of a reply, from its end, in which a move is looked for."""
_MOST_SENTENCES, _MOST_MOVES, _LONGEST, _NEAR = 80, 9, 600, 160
"""Sentences, moves in a sentence, characters of a sentence, and around a move, that are read."""

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
_SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_WORDS = {word: str(at) for at, word in enumerate(_SMALL.split())} | {
    "fifteen": "15", "sixteen": "16", "seventeen": "17", "eighteen": "18", "nineteen": "19",
    "twenty": "20", "first": "1", "second": "2", "third": "3", "fourth": "4", "fifth": "5",
    "sixth": "6", "seventh": "7", "eighth": "8", "ninth": "9",
}  # fmt: skip
_WORD_NUMBER = re.compile(
    r"(?:\b(?:zero|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen"
    r"|fifteen|sixteen|seventeen|eighteen|nineteen|twenty)(?=\s*(?:[^\w\s-]|$|(?:times|first"
    r"|because|as|since|please|next|now|is|a'?s)\b))|(?<=number )one\b|\b(?:first|second|third"
    r"|fourth|fifth|sixth|seventh|eighth|ninth)(?= column\b))",
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
    skipped = no_results(text)
    found = [
        (one.start(), one.end(), one[0].replace("−", "-").replace(",", ""))
        for one in _NUMBER.finditer(text)
        if one.start() not in skipped
    ]
    words = ((*one.span(), _WORDS[one[0].lower()]) for one in _WORD_NUMBER.finditer(text))
    return apart([*found, *words])


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
    r"\b(?:turns|steps|lives|tries|time|nothing|anything|what|moves|cells|\d+)\s+(?:(?:is"
    r"|are)\s+)?left\b(?!\s+of)|\b(?:one|last) (?:move|turn) left\b|\bleft\s*:"
    r"|\bleft\s+(?:over\b(?! (?:to )?(?:up|down|right))|to\s+(?:do|go|play)|with|in the game"
    r"|column|side)\b|\b(?:pull|give|gives|gave|set|sets|end|ends|make|makes|open|opens|line|speed"
    r"|back|follow|come|add|sum|look|looking|wake|stand|build|mess|break|wind|save|free|clear"
    r"|catch|keep|use|goes|giving|setting)\s+(?:\w+\s+)?up\b|\bup\s+(?:to\s+(?:\d|you|me|now|this"
    r"|that)|until|against|front|there)\b|\bupside\b|\b(?:break|slow|calm|sit|settle|write|cut"
    r"|narrow|boil|track|count|let|shut|breaking)\s+(?:\w+\s+)?down\b|\b(?:the|a|is"
    r"|no) right (?:move|answer|choice|way|one|thing|direction|order|place|decision|option)\b"
    r"|\b(?:all|you'?re|you are|that'?s|quite|which way is) right\b"
    r"|^\W*(?:okay, )?right,(?=\s+(?:i|i'?m|i'?ll|so|let'?s|let|the|my|now|then|that|we|this)\b)"
    r"|,\s*right\s*\?|(?<!go )(?<!move )(?<!step )\bright\s+(?:now|away|after|before|here|there"
    r"|next to|answer|corner|side|edge|order|way|move|one)\b|\b(?:(?:(?<!move )is|are|walls?"
    r"|holes?|lies|exit|somewhere|far|box) (?:\w+ )?(?:to|on|at)|from|of|in) (?:the|its|your"
    r"|my) (?:left|right)\b(?: and (?:the )?(?:left|right)\b)?|\b(?:on|at) (?:the|its|your"
    r"|my) (?:left|right)\b|\b(?:left|right|up|down)(?=\s*-\s*(?:left|right|up|down|most|hand)\b)"
    r"|\b(?:top|bottom|upper|lower)[\s-]+(?:left|right)\b",
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
    idioms = {at for one in IDIOM.finditer(text) for at in range(*one.span())}
    for one in pattern.finditer(text):
        if not (one.start() in idioms and one[0].lower() in _DIRECTIONS):
            yield one.start(), one.end(), names[" ".join(one[0].casefold().split())]


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


# --- what a sentence does with a move ----------------------------------------------------------

CROSSED_OUT = "❌✖✗✘⛔🚫👎"
SENTENCES = re.compile(
    r"(?<=[.!?;])(?<!\bvs\.)(?<!e\.g\.)(?<!i\.e\.)[\"'”’)*_]*\s+|\n+|(?<=\.\.\.)|,?\s+(?=(?:and"
    r"|but) if\b)"
)
_OBSTACLE = r"(?:walls?|holes?|dead end|nowhere|trap|cliff|mine|corner(?! case))\b"
_NOT = (
    rf"\b(?:not|isn'?t)\b(?! (?:an? |the )?{_OBSTACLE})|n't\b|\b(?:never|dont|cannot|cant|wont"
    rf"|neither|nor"
    r"|unable|far from|rul(?:e|ed|ing) out|nicht|kein\w*|niemals|pas|jamais|nunca|não|nie|не|нет)\b"
    rf"|[不没别別勿{CROSSED_OUT}]|ない|ません|だめ|않|못|아니"
)
DENIED_BEFORE = re.compile(
    rf"{_NOT}|\b(?:no|without|refus\w+|declin\w+|instead of|rather than|other than|except|(?:any"
    rf"|every)thing"
    r" but|(?:all|nothing) but|against|reject\w*|dismiss\w*|forbid\w*|disagree\w*|hate|dislike"
    r"|forget|opposite of|(?:avoid\w*|stop|skip\w*|ignor\w+|cancel\w*|undo|abandon\w*"
    r"|discard\w*)(?!.*\bby\b))\b|\b(?:unwise|foolish|mistake|bad idea|pointless|dangerous|risky"
    r"|wrong|impossible|illegal|fatal)\b[^,;]{0,20}\bto\b",
    re.IGNORECASE,
)
DENIED_AFTER = re.compile(
    rf"{_NOT}|\bno (?:good|use|way|option|longer|choice|go)\b|\bno\W{{0,4}}$"
    r"|(?<!from )(?<!avoid )(?<!avoids )\b(?:blocked|impossible|illegal|invalid|wrong|incorrect"
    r"|bad|mistake"
    r"|dangerous|unsafe|pointless|useless|out of the question|forbidden|worse|worst|taken|(?:is"
    r"|are) off"
    r"|off the table|loses?|loss|losing|fail\w*|killed|death|deadly|terrible|unusable|foolish"
    r"|unwise|risky"
    r"|does nothing|(?:avoid|reject|refus|dismiss|ignor|cancel|discard|abandon|skipp|exclud)ed)\b"
    r"|\b(?:hits?|bumps?|runs?|leads?|falls?|walks?|takes? me|puts? me|is|are|'s|be|see|=)"
    rf"(?:(?!\b(?:no|not|safe|free|away|clear|past|around)\b|n't)[^,;]){{0,24}}\b{_OBSTACLE}",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:or|either|maybe|perhaps|might|may|possibly|could|unsure|not sure|uncertain|undecided"
    r"|don'?t know|do not know|no idea|(?:what|how) about|wonder\w*|torn|between(?! \d)|versus|vs"
    r"|alternatively|whether|(?<!without )hesitat\w*|can'?t decide|cannot decide|any of|depends"
    r"|otherwise)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\b(?:if|unless|when|whenever|suppose|imagine|went|moved|tried|played|guessed|previous(?:ly)?"
    r"|last time|last turn|earlier|already|was|were|had|used to|before (?:i|we|you)|tell me"
    r"|yesterday|wanted|mentions?|such as|you (?:play|move|go|push|press|slip|draw|said|told|chose"
    r"|took|did|have|can|could|need|must)|said|(?:i|we) (?:first )?thought|(?:initially|originally"
    r"|at first)(?!,? (?:planned|let|i (?!would|chose|picked|liked)))|(?:they|he|she) \w+"
    r"|some (?:players|people|would)|consider(?:ed|ing)|tempted|contemplated|(?:thought|thinking"
    r"|think) (?:about|of)|some(?:one|body)|falling|drift(?:s|ing)|(?<!\bi am )(?<!\bi'm )lean(?:s"
    r"|ing)|tilt(?:s|ed|ing)|dealer (?:\w+ )?|example says|options are|(?:opponent|enemy|rival"
    r"|x) (?:\w+ ){0,2}?(?:will|would|can|could|may|might|plays?|takes?|took|goes|wants?"
    r"|threatens?|likely|probably|is|has|gets))\b|\b(?:not|never"
    r"|n't)\s+(?:yet\s+)?(?:been\s+)?(?:tried|tested|explored|used|pulled|played|pressed|guessed"
    r"|visited|seen|chosen|had)\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"[\s*_\"'`]*(?:was|were|ha[sd] (?:already )?been|got|is what you)\b", re.IGNORECASE
)
_PURPOSE = re.compile(r"[\s*_\"'`”’]*(?:in order |so as )?to\b", re.IGNORECASE)
_STRONG_BREAK = re.compile(
    r"\s[-–—]+\s|\b(?:because|since|as|(?<!ing )(?<!all )but|so|while|although|though|which(?! is)"
    r"|where|therefore|thus|hence|given|(?<!go )(?<!going )for|after|actually|instead(?! of))\b",
    re.IGNORECASE,
)
_BREAK = re.compile(rf"[,:(]|\bthen\b|{_STRONG_BREAK.pattern}", re.IGNORECASE)
_DOING = (
    r"(?:go|move|mov|choos|pick|guess|play|tak|plac|putt?|try|say|head|select|dropp?|click|push"
    r"|step|walk|us|start|beginn?|swip|shift|slid|bet|search|reveal|block|flag|hitt?|stand|continu"
    r"|tak|opt|opp?en|explor|test|vot|answer|swapp?|chang|pull|press|turn)"
)
_NO_MOVE = (
    r"(?!(?:have|had|need|see|saw|know|knew|was|were|can|could|might|may|like|hope|lose|win"
    r"|remember|wonder|notice|understand|wish|hear|fall|fell|feel|guess(?= (?:so|that))|live"
    r"|started|do|did|don|cannot|won|stand (?:in|at)|am (?!\w+ing)|always|never|usually|often|only"
    r"|still|would|will not|love|hate|mean)\b)"
)
_COMMIT = re.compile(
    rf"\b(?:i'?ll|i will|i'?d|i would|i shall|i should|let'?s|let us|let me|please|we'?ll|sure"
    rf"|okay|ok|yes"
    rf"|alright|(?:i|we)(?: \w+ly| just| then| now| also)? (?:must|need to|have to|had better"
    rf"|{_NO_MOVE}[a-z]+)|(?:i'?m|we'?re|i am|we are) (?:\w+ly )?\w+ing"
    rf"|(?:^|[,:] ?|\band |\bto )(?:\w+ly )?{_DOING}(?:e|t|ing)?|going (?:with|for)|(?:we|player"
    rf"|one) should|final(?:ly)?"
    r"|best|safest|wisest|leaves|remains|optimal|shortest|smartest|strongest|most natural|only way"
    r"|usual reply|it is safe|(?:comes|amounts|adds up|sums) (?:up )?to|says|suggests|another card"
    r"|occurs?|appears?|equals?|gives|makes?|midpoint|halfway|first|next)\b|\b(?:move|action"
    r"|answer|guess|choice|option|decision|command|step|solution|result|expression|equation"
    r"|response|reply|last line|number|word|letter|total|value|sum|direction|instinct|thought"
    r"|middle|square|midpoint|plan|it)\b[^,;]{0,60}(?:\b(?:is|be|would|should|will|are|has)\b|'s\b"
    r"|:|=)|\b(?:o (?:at|goes)|goes|by)\b",
    re.IGNORECASE,
)
_POINTS = re.compile(r"(?:[:=>→]|\bthere (?:are|is))\s{0,3}[*\"'`]{0,3}$", re.IGNORECASE)
_OTHERS = re.compile(
    r"\W*(?:the |my |your )?(?:opponent|enemy|rival|dealers?|x|they|you|some(?:one|body)|he|she"
    r"|hole|goal|exit|start|box|target|board|map)\b(?!.*(?:\b(?:i|so|let|therefore|i'll|i'd)\b|:))",
    re.IGNORECASE,
)
"""A sentence about somebody or something else states no move."""
_STARTS = re.compile(
    r"[\s*_\"'`“‘(\[=>→-]*(?:(?:yes|okay|ok|alright|well|sure|hm+|then|so|now|therefore|square"
    r"|cell|column|position|number|letter|word|the|my|o|at|in|definitely|probably)\W+)*",
    re.IGNORECASE,
)
_ABOUT_IT = re.compile(
    r"[\s*_\"'`”’]*(?:is|are|was|has|have|leads?|looks?|seems?|side|of|and|goes|contains?|there)\b",
    re.I,
)
_PRAISED = re.compile(
    r"[\s*_\"'`”’,)]*(?:is|would be|will be|it (?:is|shall be)|it'?s|seems|looks|sounds|feels"
    r"|should be)\s*(?:the\s+|my\s+|a\s+|to\s+be\s+|like\s+){0,2}(?:best|right|my|good|correct"
    r"|final|obvious|only|safe\w*|answer|move|guess|choice|action|way|what i|wise\w*|strong\w*"
    r"|promising|better|fine|great|one letter|common|$|[.!,])",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"[\s,*_`\"'”’]*(?:(?:and|then|and then|as well as|followed by|(?:and )?after (?:that|this)|\+"
    r"|&|[-=]?>|→|/|\|)[\s,*_`\"'“‘]*)*",
    re.IGNORECASE,
)
_ELSE = re.compile(r"[\s,*_`\"'”’]*(?:or|otherwise|else)\b[\s\w]{0,20}[\s*_`\"'“‘]*", re.IGNORECASE)
_LEADS = re.compile(r"[\s*_`\"']*(?:leads?|gets?|brings?|takes?)\b", re.IGNORECASE)
_VERSUS = re.compile(
    r"[\s,*_`\"'”’]*(?:and |but )?(?:not|over|rather than|instead of|as opposed to|than(?= )"
    r"|in preference to)(?:\s+(?:to|go|going|move|moving|the|with|at|on))*[\s*_`\"'“‘]*",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\W{0,4}(?:(?:then|next|later|plan|afterwards?|after (?:that|this|which)|next (?:turn|time"
    r"|i'?d?)|followed by|and then|from there|once)\b(?!\W*(?:action|move|guess|:\W*\w+\W*$))"
    r"|(?:and |but )?if\b|when\b|unless\b|should (?:it|that)\b)",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\W{0,4}(?:and |but )?(?:if|when|unless|should (?:it|that))\b", re.IGNORECASE
)
_CONCLUDES = re.compile(
    r"\b(?:so|therefore|thus|hence|final(?:ly)?|in the end|on reflection|i (?:pick|choose|take)"
    r"|actually|begin|start|first)\b",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"\W{0,4}(?:for )?(?:example|instance|e\.g)\b(?!\s+of).*?(?=\bbut\b|$)", re.IGNORECASE
)
_REASONS = ("because", "since", "as", "while", "which", "where", "for")
_OR_NOT = re.compile(r"[\s*_\"'`.,…-]*(?:or not|right\s*\?)", re.IGNORECASE)
_OR_ELSE = re.compile(r"[\s*_\"'`.…-]*(?:or|alternatively)\b", re.IGNORECASE)
_QUOTE_OPEN, _QUOTE_CLOSE = tuple("\"'`*“‘[<("), tuple("\"'`*”’]>)")


class Verdict(NamedTuple):
    """What a text says."""

    move: str | None = None
    problem: str = ""
    """Why there is no move, for the player; empty where nothing was named at all."""
    why: str = ""
    """The problem in a word: two, doubt, denial, question."""


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
) -> Verdict:
    """Return the one move that ``text`` states, or why there is none.

    Args:
        text: What a model wrote.
        find: Gives the moves that a sentence names.
        is_quote: Says whether a sentence only repeats what the model was told.
        mentions: Whether the only move that is mentioned counts as stated.
    """
    said: dict[str, set[str]] = {}
    stated: list[tuple[set[str], bool]] = []  # by sentence, and whether it concludes
    for sentence in SENTENCES.split(text[-WINDOW:])[-_MOST_SENTENCES:]:
        if not sentence or is_quote(sentence):
            continue
        if _OR_NOT.match(sentence) and stated:
            said.setdefault("doubt", set()).update(*(moves for moves, _ in stated))
            stated.clear()
            continue
        roles = weigh(sentence, find)
        moves = {move for move, role in roles if role == "stated"}
        if roles and _OR_ELSE.match(sentence) and stated:
            moves |= stated.pop()[0] | {move for move, _ in roles}
        if roles and _LATER.match(sentence):
            is_condition = _CONDITION.match(sentence) and not _CONCLUDES.search(sentence)
            swap = {"stated": "later", "denied": "denied"}
            swap = {"stated": "mention", "denied": "mention"} if is_condition else swap
            roles = [(move, swap.get(role, role)) for move, role in roles]
            moves = set()
        if moves:
            stated.append((moves, _CONCLUDES.search(sentence) is not None))
        for move, role in roles:
            said.setdefault(role, set()).add(move)
    mentioned = said.get("mention", set())
    if mentions and not stated and len(mentioned) == 1:
        stated = [(mentioned, False)]
    return _decide(stated, said)


def _decide(stated: list[tuple[set[str], bool]], said: dict[str, set[str]]) -> Verdict:
    single = [(moves, concludes) for moves, concludes in stated if len(moves) == 1]
    moves = set().union(*(moves for moves, _ in single))
    denied, doubted = said.get("denied", set()), said.get("doubt", set())
    if len(moves) > 1 and single[-1][1] and stated[-1] == single[-1]:
        moves = single[-1][0]
    if not moves:
        moves = set().union(*(moves for moves, _ in stated))
        if not moves and not doubted and not said.get("question"):
            moves = said.get("later", set())
    elif len(stated[-1][0]) > 1 and not stated[-1][0] & moves:
        moves = moves | stated[-1][0]
    if len(moves) > 1:
        named = " and ".join(sorted(moves)[:3])
        return Verdict(None, f"Your reply names more than one move: {named}. Name one.", "two")
    if moves & denied:
        return _refused(moves, "also says not to play it", "denial")
    if moves:
        return Verdict(next(iter(moves)))
    for role, how, why in (
        ("doubt", "in doubt", "doubt"),
        ("question", "as a question", "question"),
        ("denied", "as what not to play", "denial"),
    ):
        if found := said.get(role):
            return _refused(found, how, why)
    return Verdict()


def _refused(moves: set[str], how: str, why: str) -> Verdict:
    named = " and ".join(sorted(moves)[:3])
    return Verdict(None, f"I read {named} in your reply, but {how}. Name the move to play.", why)


def weigh(sentence: str, find: Find) -> list[tuple[str, str]]:
    """Return each move in a sentence with what the sentence does with it."""
    sentence = sentence[-_LONGEST:]
    found = [*islice(find(sentence), _MOST_MOVES)]
    if not found:
        return []
    if is_question(sentence):
        return [(move, "question") for *_, move in found]
    if len(found) == _MOST_MOVES or _OTHERS.match(sentence):  # a list, or about something else
        return [(move, "mention") for *_, move in found]
    sentence, found, slighted = _compared(sentence, found)
    inside = {at for start, end, _ in found for at in range(start, end)}
    strong = [one.span() for one in _STRONG_BREAK.finditer(sentence) if one.start() not in inside]
    breaks = [one.span() for one in _BREAK.finditer(sentence) if one.start() not in inside]
    roles = [_role(sentence, start, end, strong, breaks) for start, end, _ in found]
    _weigh_pairs(sentence, found, roles)
    if _OR_NOT.match(sentence, found[-1][1]):
        roles[-1] = "doubt"
    if example := _EXAMPLE.match(sentence):
        roles = [
            "mention" if start < example.end() else role
            for (start, *_), role in zip(found, roles, strict=True)
        ]
    named = [(move, role) for (*_, move), role in zip(found, roles, strict=True)]
    # "I have not tried up, so I go up": a move that is stated after its denial is stated.
    named = [one for at, one in enumerate(named) if (one[0], "stated") not in named[at + 1 :]]
    return named + [(move, "denied") for move in slighted]


def _weigh_pairs(sentence: str, found: list[Named], roles: list[str]) -> None:
    """Change the roles of moves that stand side by side, by what stands between them."""
    for at in range(1, len(found)):
        (_, before, first), (start, end, move) = found[at - 1], found[at]
        between = sentence[before:start]
        if _ELSE.fullmatch(between) and roles[at - 1] in ("stated", "mention"):
            roles[at - 1] = roles[at] = "doubt"
        if not _JOINED.fullmatch(between):
            continue
        pair = {roles[at - 1], roles[at]}
        if "/" in between or "|" in between:
            roles[at - 1] = roles[at] = "doubt"
        elif "stated" in pair and "then" in between.lower():
            roles[at - 1] = roles[at] = "stated"
        elif pair == {"stated", "mention"} and not _ABOUT_IT.match(sentence, end):
            roles[at - 1] = roles[at] = "stated"  # "I go left, up" names two moves
        elif "stated" in pair and _LEADS.match(sentence, end):
            roles[at - 1] = roles[at] = "mention"  # "up + left leads home" plays neither
        if move == first and roles[at] == "stated":
            found[at] = start, end, f"{move} again"


def _compared(sentence: str, found: list[Named]) -> tuple[str, list[Named], list[str]]:
    """Return a sentence without what a move is preferred to: "left rather than up" is "left".

    >>> _compared("left rather than up", [(0, 4, "left"), (17, 19, "up")])
    ('left', [(0, 4, 'left')], ['up'])
    """
    kept, slighted, cut = [found[0]], [], 0
    for (_, before, first), (start, end, move) in pairwise(found):
        versus = _VERSUS.fullmatch(sentence, before - cut, start - cut)
        if versus and first != move and kept[-1][2] == first:
            sentence = sentence[: before - cut] + sentence[end - cut :]
            cut += end - before
            slighted.append(move)
        else:
            kept.append((start - cut, end - cut, move))
    return sentence, kept, slighted


def _role(
    sentence: str,
    start: int,
    end: int,
    strong: Spans,
    breaks: Spans,
) -> str:
    clause = sentence[max(_last_end(breaks, start), start - _NEAR) : start]
    part = sentence[max(_last_end(strong, start), start - _NEAR) : start]
    after = end + (sentence[end : end + 1] == ":")  # "up: a wall" is about up
    rest = sentence[end : min((at for at, _ in breaks if at >= after), default=end + _NEAR)]
    if _ASIDE.search(clause) or _PAST.match(sentence, end):
        return "denied" if DENIED_BEFORE.search(clause) else "mention"
    if _DOUBT.search(clause) or _DOUBT.search(rest):
        return "doubt"
    if DENIED_BEFORE.search(clause):
        return "denied"
    rest = rest[: 0 if _PURPOSE.match(rest) else None]
    if _PRAISED.match(sentence, end) and not DENIED_BEFORE.search(rest):
        return "stated"
    if DENIED_AFTER.search(rest):
        return "denied"
    return "stated" if _is_stated(sentence, start, end, clause, part, strong) else "mention"


def _is_stated(sentence: str, start: int, end: int, clause: str, part: str, strong: Spans) -> bool:
    """Return whether a move that nothing speaks against is meant to be played."""
    quoted = sentence[:start].endswith(_QUOTE_OPEN) and sentence.startswith(_QUOTE_CLOSE, end)
    if quoted or undress(sentence) == undress(sentence[start:end]):
        return True
    if _STARTS.fullmatch(sentence, 0, start) and not _ABOUT_IT.match(sentence, end):
        return True
    if not clause.strip() and not sentence[end:].strip(" .!*_`\"'"):
        return True  # a clause of its own: "since left is a wall, up"
    if not part.isascii() and not re.search("[A-Za-z]", part):
        return True  # of other languages only the denials are known
    if _POINTS.search(part) or _COMMIT.search(part + sentence[start:end]):
        return True
    last = max((span for span in strong if span[1] <= start), default=(0, 0))
    is_reason = sentence[slice(*last)].lower() in _REASONS
    return bool(last[1]) and not part.strip(" ,:") and not is_reason  # "left is a wall, so up"


def _last_end(spans: Spans, before: int) -> int:
    return max((end for _, end in spans if end <= before), default=0)
