"""Stage 3: the one move that a text states, or the reason why it states none.

A *finder* yields every move that a sentence names, with its position. ``judge`` then classifies the
role of each in its clause (``_role``): denied, doubted, asked about, part of a remark on something
else (an *aside*), stated, or only mentioned. One stated move is played; so is a mention if no other
move is named. All limits are fixed, so the work is bounded.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

Named = tuple[int, int, str]
"""Start, end and the move in the game's own words."""
Find = Callable[[str], Iterable[Named]]
Quotes = Callable[[str], bool]
WINDOW = 8000
"""Characters of a reply, from its end, that are searched for a move."""
_MOST_SENTENCES, _MOST_MOVES, _LONGEST, _NEAR = 80, 9, 600, 160
"""Limits: sentences, moves per sentence, characters per sentence, characters around a move."""

# --- finders -----------------------------------------------------------------------------------

_DOTTED = str.maketrans("\u0131\u0130", "ii")  # Turkish letters; IGNORECASE reads them as i


def fold(text: str) -> str:
    r"""Return ``text`` in the form that IGNORECASE compares, as a key for a table.

    >>> fold("S\u0131X"), fold("\u017f\u0130x"), fold("Six")
    ('six', 'six', 'six')
    """
    return (text if text.isascii() else text.translate(_DOTTED)).casefold()


_UNITS = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_ORDINALS = "first|second|third|fourth|fifth|sixth|seventh"
_VALUES = {word: at for at, word in enumerate(f"zero|{_UNITS}|{_TEENS}".split("|"))}
_VALUES |= {word: 10 * at for at, word in enumerate(_TENS.split("|"), 2)}
_VALUES |= {word: at for at, word in enumerate(_ORDINALS.split("|"), 1)}
_CARDINAL = rf"(?:(?:{_TENS})(?:[ -](?:{_UNITS})\b)?+|zero|{_TEENS}|{_UNITS})"
# "One" is mostly not a number: "the middle one".
_NUMBER = re.compile(
    r"(?i)(?<![\w.])(?<!\d,)(?<!--)(?:(?<!-)[-−](?=\d)|negative (?=\d))?(?:\d{1,3}(?:,\d{3})+"
    r"|\d{1,18})(?=(?:st|nd|rd|th)\b|(?!\w|[.,]\d|\s?%))|\b(?<!minus )(?!one\b)"
    rf"{_CARDINAL}\b(?!-)|\b(?:{_ORDINALS})(?= column\b)"
    r"|(?:(?<=\bto )|(?<=\bis )|\A)one\b(?=\W*\Z)"
)
_N = rf"(?:(?<!\d)-?\d++|\b{_CARDINAL}\b)"
_TERM = "(?:plus|minus|times|add(?:ing)?|subtract(?:ing)?)"
# Numbers that are no answer, in this order: rows of a board and ranges, counting aloud, counted
# things, limits and names, terms of a sum in words.
_NO_ANSWER = re.compile(
    rf"(?i){_N}(?:(?:[ \t|.]++|[-–]| (?:to|of|in|out of|by) ){_N})++|[\[(]\d++,\s?\d++[\])]"
    rf"|(?:\b(?:between|of|into) {_N}|{_N}(?:, {_N})+,?) (?:and|or) {_N}|{_N}(?:, {_N}){{2,}}"
    rf"|{_N} (?:(?:more|free|possible|other) \w+|(?:in a )?(?:turn|word|letter|number|column|row"
    "|line|cell|square|step|guesse?|move|dis[kc]|option|choice|mine|mark|corner|candidate)s?)\\b"
    r"|\b(?:(?:\w+er|less|more) than|above|below|under|over|at (?:most|least)|(?<!round )up to"
    rf"|around|(?<!is )about|connect|disk|rows?|turn|count(?:ing)? to|{_TERM}) {_N}"
    rf"(?: (?:and|of) {_N})?|{_N}(?=,? (?:then )?{_TERM} {_N})"
)
_SUM = re.compile(  # also without a result, so that a long sum is scanned only once
    r"((?:(?<![\w)])[-−])?(?<!\d)\d++(?:\)?\s?(?:[-+*×÷−]|//?)\s?\(?\d++)++)\)?"
    r"(\s?(?:=|\b(?:is|equals|gives)\b))?"
)


def find_numbers(text: str) -> Iterator[Named]:
    """Yield the whole numbers that ``text`` may give as an answer, in digits or words.

    >>> [move for *_, move in find_numbers("3 + 4 = 7, so 7 and -2, not 3.5 or 20%. 1 2 3")]
    ['7', '7', '-2']
    >>> [move for *_, move in find_numbers("There are 9 turns, so I guess twenty-one.")]
    ['21']
    """
    skipped = () if text.isdecimal() else no_results(text)
    for one in _NUMBER.finditer(text):
        if one.start() not in skipped:
            yield one.start(), one.end(), _in_digits(one[0])


def _in_digits(number: str) -> str:
    if number[-1].isalpha():
        return str(sum(_VALUES[word] for word in re.findall("[a-z]+", fold(number))))
    return re.sub("[−a-zA-Z ]+", "-", number).replace(",", "")


def no_results(text: str) -> set[int]:
    """Return the indices of numbers that lead up to a result or count things."""
    spans = [one.span() for one in _NO_ANSWER.finditer(text)]
    spans += [one.span(1) for one in _SUM.finditer(text) if one[2]]
    return {at for start, end in spans for at in range(start, end)}


def apart(found: Iterable[Named]) -> Iterator[Named]:
    """Yield the moves in order of their position; of two that overlap, only the first.

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
    r"(?i)\b(?:turns|steps|moves|nothing|what|\d+ (?!goes|moves|slides)[a-z]+s) (?:is )?left\b"
    r"|\bleft\s?:|\bup (?:to (?:\d|you|me|now)|there)\b|\b(?:break|comes|count) (?:\w+ )?down\b"
    r"|\b(?:give|set|end|look\w*|(?:it|score) goes|add|time is) (?!like)(?:\w+ )?up\b"
    r"|\b(?:all|you'?re|you are|that'?s|looks|feels|way is) right\b|(?<!go )\bright (?:now|there)\b"
    r"|^\W*(?:okay, )?right,(?= (?:i|so|let|the|my|now|that|we)\b)|(?<=up is )right(?=\W*$)"
    rf"|(?<!to )\b(?:the|my|your) {_SIDE} (?=[a-z])|\b(?:from|of|in|on|at) the {_SIDE}\b"
    rf"|\b(?:top|bottom|upper|lower|far)[ -]+{_SIDE}\b|\b{_SIDE}(?= of\b|-?(?:most|hand))"
)
_DIRECTIONS = re.compile("(?i)up|down|left|right")


def without_idioms(text: str) -> str:
    r"""Return ``text`` without idioms that are no direction: "Turns left: 5", "I give up".

    >>> without_idioms("the right move").count("\0"), without_idioms("go right")
    (10, 'go right')
    """
    return _IDIOM.sub(lambda found: "\0" * len(found[0]), text)


@lru_cache(maxsize=256)
def _phrases(moves: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, str]]:
    ordered = sorted(moves, key=len, reverse=True)
    parts = (r"\s+".join(map(re.escape, move.split())) for move in ordered)
    # Do not match parts of numbers or of rows of numbers: 0.5, 2% and "7 2" contain no move.
    before, after = r"(?<![\w-])(?!(?<=\d[., ])\d)", r"(?![\w-]|(?<=\d)(?:[., ]-?\d|\s?%))"
    pattern = re.compile(rf"{before}(?:{'|'.join(parts)}){after}", re.IGNORECASE)
    return pattern, {" ".join(fold(move).split()): move for move in moves}


def find_phrases(text: str, moves: Sequence[str]) -> Iterator[Named]:
    """Yield the ``moves`` that ``text`` names word for word, whatever their case.

    >>> list(find_phrases("I Stand, as standing by is wise.", ["hit", "stand"]))
    [(2, 7, 'stand')]
    >>> list(find_phrases("0.5, 1,000 or 2%, not 7 2: 3.", ["0", "1", "2", "3", "5"]))
    [(27, 28, '3')]
    """
    if not moves:
        return
    pattern, names = _phrases(tuple(moves))
    for one in pattern.finditer(text):
        phrase = fold(one[0])
        if not _DIRECTIONS.fullmatch(phrase) or without_idioms(text)[one.start()] != "\0":
            yield one.start(), one.end(), names[" ".join(phrase.split())]


def find_pattern(text: str, pattern: str) -> Iterator[Named]:
    """Yield the matches of a regex of moves that are whole words.

    >>> list(find_pattern("try a1, not ba1", "[a-h][1-8]"))
    [(4, 6, 'a1')]
    """
    before, after = r"(?<![\w.-])(?<!\d[ ,])(?<!\d, )", r"(?![\w-]|\.\d|[ ,]{1,2}[-.]?\d)"
    for one in re.finditer(f"{before}(?:{pattern}){after}", text):
        yield one.start(), one.end(), one[0]


find_with = lru_cache(maxsize=4096)(partial)
"""A finder with its setting; the same setting gives the same object, so its results are cached."""

# --- the words that show the role of a move in its sentence -------------------------------------

SENTENCES = re.compile(r"(?i)(?:(?<=[.!?;])(?<!e\.g\.)[\"'”’)*_]*\s++|\n++)(?!or\b)")
CROSSED_OUT = "❌✖✗✘⛔🚫👎"
_OBSTACLE = r"(?:walls?|holes?|dead end|nowhere|trap|cliff|mine)\b"
DENIED = re.compile(
    rf"(?i)\bnot\b(?! (?:an? |the )?{_OBSTACLE})|n't\b(?! hurt)|[不没别{CROSSED_OUT}]|(?<!from )"
    r"\b(?:never|cannot|neither|nor|far from|nicht|kein|pas|nunca|не|without|refus\w+|anything but"
    r"|reject\w*|rul\w+ out|disagree\w*|hate|forget|no (?:good|use|way|longer)|impossible|illegal"
    r"|invalid|wrong|bad|incorrect|mistake|blocked|dangerous|unwise|unsafe|useless|wors[et]|taken"
    r"|does nothing|los(?:es?|ing)|fail\w*|risky|(?:instead|rather|other) (?:of|than)"
    rf"|(?<=\0 )(?:over|than)|(?:undo|avoid\w*)(?! (?:the |any )?{_OBSTACLE}|[^,;]{{0,40}} by\b))\b"
    r"|\bno\W{0,4}$|\b(?:hits?|leads?|is|are|(?<!let)'s|see|=)"
    rf"(?:(?!\b(?:no|not|safe|free|away|clear|past|around)\b)[^,;]){{0,24}}\b{_OBSTACLE}"
)
_DOUBT = re.compile(
    r"(?i)\b(?:or|either|maybe|perhaps|might|may|possibly|could(?! only)|also|too|not sure|(?:what"
    r"|how) about|wonder\w*|between(?! \d)|whether|otherwise|depends|if|unless)\b"
)
_ASIDE = re.compile(
    r"(?i)\b(?:if|unless|when|suppose|(?:love|nice) to|went|was|were|had|already|after|before"
    r"|then|later|such as|you(?! \w+ is\b| (?:with|by)\b)|told|said|chose|thought(?! is)|moved"
    r"|tried|leans|previous(?:ly)?|is \w+ing|dealers?|(?<!there )(?<!we )are|(?:i|they) (?:have"
    r"|need|see|know|like|hope|feel|wish|always|usually|only|still|am)(?! to| decided| \w+ing))\b"
)
"""Words for what is hypothetical, past, or done by others."""
_ELSEWHERE = re.compile(
    r"(?i)\W{0,4}(?:(?:and )?(?:then|later|plan|after (?:that|this)|option \w|next (?:turn|time)"
    r"|if|when|unless|once|for example|for instance|e\.g)\b(?!.*\bbut\b)|(?:the "
    r"|your )?(?:opponent|dealer|x|they|you|your \w+|goal|exit|box|target|board|map"
    r"|corridor)\b(?!.*(?:\b(?:i|so|let)\b|:)))"
)
"""The start of a sentence about later, a condition, an example, or somebody or something else."""
_BREAK = re.compile(
    r"(?i)(?<!\d)\s[-–—]+\s|(?<=\0)\W{0,3}to\b|[,:]|\b(?:(?P<result>so(?! is| that)|therefore|thus)"
    r"|and (?=(?:i|we|let|go|take)\b)|(?<!ing )but|although|though|given|actually|in order|instead"
    r"|because|since|as|while|which|where|(?<!go )for|rather than|(?<=\0 )(?:over|than))\b"
    r"|(?<=\0)\s(?=i\b)|\b(?=it(?:'?s| is)\b)"
)
"""The end of a clause."""
_ABOUT_IT = re.compile(r"(?i)\W*(?:is|are|was|were|ha[sv]e?|leads?|looks?|seems?|of|and|would)\b")
"""Words after a move that the sentence describes and does not choose."""
_PRAISED = re.compile(
    r"(?i)[\s*_\"'`”’,)]*(?:is|(?:would|will|should) be|it is|it'?s|seems|looks|sounds)\s*(?:\w+ )"
    r"{0,3}?(?:(?:b|saf|short|fast|strong|simpl|clos|wis)est|\w+[ai]ble|\w+al\b|right|my|good|nice"
    r"|great|correct|obvious|only|safe|fine|must|hard to|one letter|word|less|(?:bett|saf|clos"
    r"|short)er|answer|move|guess|choice|way to|wh(?:at|ere) (?:i|we)|[.!,]|$)"
)
_COMMIT = re.compile(
    r"(?i)\b(?:(?:i|we)(?:'\w+| [a-z]+)|let(?:'?s| us| me)|best|final(?:ly)?|leaves|gives)\b"
    r"|(?:^\W*|(?<=[,:]) ?|\b(?:and|to) )(?:go|move|choose|pick|guess|play|take|place|put|\w+ing)\b"
    r"|\b(?:move|action|answer|guess|choice|step|result|total|start|it|that|my (?:\w+ ){0,2}\w+)\b"
    r"[^,;]{0,60}(?:\b(?:is|be|should|will)\b|'s\b|:|=)"
)
"""Words that choose a move among several named ones."""
_THAT = re.compile(
    r"(?i)\b(?:i(?:'ll|'d)?|let'?s|we)\b(?: \w+){0,2}? (?:take|play|choose|pick|try|do|go|guess)"
    r"(?: with)? (?:it|that|this|there)\b|\b(?:that|this|it)(?:'s| is) (?:my|what|the one)\b"
)
"""Words after a move which say that it is played."""
_JOINED = re.compile(
    r"(?i)[\s,*_`\"'”’]*(?:(?:and|then|or(?: maybe)?|vs\.?|otherwise|as well as|followed by"
    r"|after that|[+&→]|[-=]?>)[\s,*_`\"'“‘]*)*"
)
_LAST = re.compile(r"\b(?:so|therefore|final|answer|total|gives|actually|begin|start|first)\b")


class Reading(NamedTuple):
    """A move that a reply may mean, or why it means none."""

    move: str | None = None
    how: str = "named"
    """Where the move was found; or why there is none: two, doubt, denial or question."""
    problem: str = ""
    """The message to the player if there is no move."""
    is_final: bool = False
    """Whether no other reading may follow if this one cannot be played."""


# --- the judge -----------------------------------------------------------------------------------


def _asks(text: str) -> bool:
    return text.rstrip("\"'`”’)]*_ ").endswith(("?", "？"))


def is_open(text: str) -> bool:
    """Return whether ``text`` asks about the moves it names, or crosses them out.

    >>> is_open("**up?**"), is_open("~~up~~"), is_open("\u274c up"), is_open("up!")
    (True, True, True, False)
    """
    crossed_out = not text.isascii() and any(sign in text for sign in CROSSED_OUT)
    return "~~" in text or crossed_out or _asks(text)


def judge(
    text: str, find: Find, is_quote: Quotes = lambda text: False, mentions: bool = False
) -> Reading:
    """Return the one move that ``text`` states, or why there is none; not final if it names none.

    ``find`` yields the moves of a sentence. ``is_quote`` says whether it repeats text that the
    model has read. With ``mentions``, a mentioned move counts if all others are denied or doubted.
    """
    by_role: dict[str, set[str]] = defaultdict(set)
    before: set[str] = set()  # moves in the last sentence
    for sentence in SENTENCES.split(text[-WINDOW:])[-_MOST_SENTENCES:]:
        roles = _weigh(sentence, find) if sentence else []
        roles = [] if roles and is_quote(sentence) else roles
        before = {move for move, _ in roles} or before
        is_spoken_of = {role for _, role in roles} <= {"aside", "mention"}
        if len(before) == 1 and is_spoken_of and _THAT.search(sentence):
            roles = [(move, "stated") for move in before]  # "Up is free. I take it."
        stated = {move for move, role in roles if role == "stated"}
        if len(stated) == 1 and _LAST.search(sentence.lower()):
            by_role["stated"] = set()
        for move, role in roles:
            by_role[role].add(move)
    return _verdict(by_role, mentions)


def _verdict(by_role: dict[str, set[str]], mentions: bool) -> Reading:
    stated, named = by_role["stated"], by_role["mention"] | by_role["aside"]
    if not mentions:
        named |= by_role["doubt"] | by_role["question"]
    if not stated and len(named) == 1 and (mentions or by_role["mention"]):  # nothing else is named
        stated = named
    if len(stated) == 1 and not stated & by_role["denied"]:
        return Reading(next(iter(stated)), is_final=True)
    for how, found, problem in (
        ("two", stated if len(stated) > 1 else (), "Your reply names more than one move: {}."),
        ("doubt", by_role["doubt"], "I read {} in your reply, but in doubt."),
        ("question", by_role["question"], "I read {} in your reply, but as a question."),
        ("denial", by_role["denied"], "I read {} in your reply, but as what not to play."),
    ):
        if found:
            problem = problem.format(" and ".join(sorted(found)[:3]))
            return Reading(None, how, f"{problem} Name the move to play.", is_final=True)
    return Reading()


def _weigh(sentence: str, find: Find) -> list[tuple[str, str]]:
    """Return each move in a sentence with its role."""
    sentence = sentence[-_LONGEST:]
    found = [*find(sentence)][-_MOST_MOVES:]
    hidden = sentence  # will have the words of the moves masked: they are no cues
    for start, end, _ in found:
        hidden = hidden[:start] + "\0" * (end - start) + hidden[end:]
    breaks = [*_BREAK.finditer(hidden)] if found else []
    roles = [_role(sentence, hidden, start, end, breaks) for start, end, _ in found]
    if _asks(sentence):
        roles = ["question"] * len(found)
    elif found and any(map(str.isalnum, hidden)) and _ELSEWHERE.match(sentence):
        roles = [one if one == "result" else "aside" for one in roles]
    if "result" in roles:  # "5 looks good, 6 better, so 6"
        role = {"stated": "aside", "result": "stated"}
        roles = [role.get(one, one) for one in roles]
    for at, (first, second) in enumerate(pairwise(found)):
        if "stated" in roles[at : at + 2] and _JOINED.fullmatch(hidden, first[1], second[0]):
            roles[at : at + 2] = ["stated", "stated"]  # "I go left, up" names two moves
    named = [(move, role) for (*_, move), role in zip(found, roles, strict=True)]
    # "I have not tried up, so I go up": a move that is stated after its denial is stated.
    return [one for at, one in enumerate(named) if (one[0], "stated") not in named[at + 1 :]]


def _role(sentence: str, hidden: str, start: int, end: int, breaks: list[re.Match[str]]) -> str:
    """Return the role of the move from ``start`` to ``end`` in its sentence."""
    after = end + hidden.startswith(":", end)  # "up: a wall" is about up
    stop = next((one.start() for one in breaks if one.start() >= after), end + _NEAR)
    last = next((one for one in reversed(breaks) if one.end() <= start), None)
    begin = max(start - _NEAR, last.end() if last else 0)
    clause, rest = hidden[begin:start], hidden[end:stop]
    if _ASIDE.search(clause):
        return "aside"
    if _DOUBT.search(clause) or _DOUBT.search(rest):
        return "doubt"
    if DENIED.search(hidden, last.start() if last else 0, start) or DENIED.search(rest):
        return "denied"
    is_subject = after > end or _ABOUT_IT.match(hidden, end)
    is_whole = last is None or not hidden[end:].strip(" .!*_`\"'")
    is_result = last and last["result"]
    is_bare = is_whole and not is_subject and (is_result or not any(map(str.isalnum, clause)))
    if is_bare or _PRAISED.match(hidden, end) or _COMMIT.search(sentence, begin, end):
        return "result" if is_result else "stated"
    return "aside" if is_subject and after == end else "mention"
