"""The word list of the word games: read once and shared by all of them.

The list is a text file beside this module, so the games need no network and no other package.
A game that draws a word tells the player how many words are possible.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from llm_gym.reading.moves import Named, apart

LENGTHS = range(3, 9)
"""Lengths of the words in the list."""

_WORD = re.compile(r"\[?(?:guess )?([a-z]+)\]?\.?")


@cache
def all_words(file: str = "word_list.txt") -> tuple[str, ...]:
    """Return all words of a file, by length and then by alphabet."""
    text = files("llm_gym.envs.shared").joinpath(file).read_text("ascii")
    return tuple(
        word for line in text.splitlines() if not line.startswith("#") for word in line.split()
    )


@cache
def words_of(length: int) -> tuple[str, ...]:
    """Return all words of ``length`` letters, in alphabetical order.

    >>> words_of(5)[0], len(words_of(5)) > 2000
    ('about', True)
    """
    return tuple(word for word in all_words() if len(word) == length)


@cache
def some_words_of(length: int, count: int | None) -> tuple[str, ...]:
    """Return ``count`` words of ``length`` letters, evenly spread over the list; None for all.

    >>> len(some_words_of(5, 10)), some_words_of(5, None) is words_of(5)
    (10, True)
    """
    words = words_of(length)
    return words if count is None else tuple(words[i * len(words) // count] for i in range(count))


@cache
def word_set(length: int, count: int | None) -> frozenset[str]:
    """Return the words of ``some_words_of`` as a set, to look one up.

    >>> "about" in word_set(5, None), "abuot" in word_set(5, None)
    (True, False)
    """
    return frozenset(some_words_of(length, count))


def parse_word(move: str) -> str | None:
    """Return the word in ``move`` in lower case, or None if it is anything but one word.

    >>> parse_word("Crane"), parse_word("[crane]"), parse_word("guess crane.")
    ('crane', 'crane', 'crane')
    >>> parse_word("crane or slate"), parse_word("crâne"), parse_word("5")
    (None, None, None)
    """
    word = move.lower()
    if word.isascii() and word.isalpha():  # what players mostly write
        return word
    found = _WORD.fullmatch(word)
    return found[1] if found else None


# --- words in a sentence ------------------------------------------------------------------------

_GUESSED = re.compile(
    r"(?:\b(?:guess(?:es|ing)?|try(?:ing)?|chooses?|choosing|it'?s|pick(?:ing)?|say(?:ing)?"
    r"|play(?:ing)?"
    r"|go(?:ing)? (?:with|for|to)|us(?:e|ing)|i'?ll|will|would|i'?d|let'?s|let me|answer|move"
    r"|choice|word"
    r"|letter|action|is|be|to|then|think|should|do|so|with|prefer|like|giving|gives|get|into|opener"
    r"|actually"
    r"|definitely|clearly|certainly|on|mean|meant|now|start|begin|open|step)\s{1,3}"
    r"|[:=,>→]\s{0,3}|\s[-–—]\s{1,3}){1,4}"
    r"(?:(?:the|an?|my|next|new|whole|word|letter|is|be|guess|:|to"
    r"|with)\s{1,3}){0,4}[\"'`*“‘\[]{0,3}"
    r"([A-Za-z]+)(?![\w'])",
    re.IGNORECASE,
)
_SHOWN = re.compile(
    r"[\"'`*“‘\[]{1,3}([A-Za-z]+)[.!]?[\"'`*”’\]]{1,3}|\b([A-Z]{3,})\b|\b([B-HJ-Z])\b(?!')"
    r"|(?<=[A-Z], )([AI])\b|\b([AI])(?=,? (?:and|or) [A-Z]\b|, [A-Z]\b(?!'))"
    r"|\b(?:guess|letter(?: is)?|say|pick|with|an?|to)\s(?:([B-HJ-Zb-hj-z])\b(?!')"
    r"|([AIai])(?=\W*$|[,.;:!]| (?:first|next|now|because|since|as|please|and|or|then)\b))"
    r"|\b(?:guess|letter|choice|pick) (?:is|will be|would be) ([A-Za-z])(?=\W*$)"
    r"|\b(?:so|for|try|vowel|consonant|check|test|take|choose|[Yy]es,|[Oo]kay,)\s([A-Za-z])(?=\W*$)"
    r"|\b(?:guess|letter)\([\"']?([A-Za-z])\b"
    r"|(?:^|:\s{1,3})[\"'`*“‘\[]{0,3}([A-Za-z])[.!\"'`*”’\]]{0,3}$"
)
_FIRST = re.compile(
    r"[\s*_\"'`“‘\[-]*([A-Za-z]+)[\"'`”’*\]]*\s*(?:[.,;:!?(—–-]|$"
    r"|(?:because|is my|since|is the|is an?|is correct|is best|is one|is common|would be|will be"
    r"|is great|is good|it is|as|or|to|fits|has"
    r"|should|gives|covers|contains|uses|please|then|and|vs\.?|over|rather|instead)\b)",
    re.IGNORECASE,
)
# If a sentence names two words side by side, both are guesses or neither is.
_BESIDE = re.compile(
    r"\b([A-Za-z]+)[\"'`*”’\]]{0,3}(?:\s?(?:[/|&+=;]|=>)\s?|,?\s(?:and after that|and then"
    r"|as well as"
    r"|followed by|and|or|then|otherwise|versus|vs\.?|is|not|over|instead of|rather than)\s)"
    r"(?=[\"'`*“‘\[]{0,3}([A-Za-z]+)\b)",
    re.IGNORECASE,
)
_LETTERS = re.compile("[A-Za-z]+")
_SPELLED = re.compile(
    r"(?<![\w'-])[A-Za-z](?:-[A-Za-z]){2,14}(?![\w-])"
    r"|(?<![\w'-])[A-Za-z](?: [A-Za-z]){2,14}(?![\w'-])"
)
_NO_GUESSES = """
a about accept action after again all also always and answer any are because been before begin
being best both brings but can change check choice choose closer clues common correct could did
does done each either english even every example fail fails final fine first for from game give
goal going good great guess had has have hello help here hidden hold how i into its just know last
left let letter letters like line lives lots made make many may maybe might mind more most move
moves need neither never next not now okay one only oops open other our out part perhaps pick
place play please reach reply right safe same say second see seems should since some sorry start
step still such sure swap take target test tests than thanks that the their them then there these
they think third this those try turn turns two use usual verify very vowel wait want was way well
were what when where which who whole why will with word words would wrong yes you your
"""
_EVERYDAY = frozenset(_NO_GUESSES.split())


def find_words(text: str, lengths: Sequence[int]) -> Iterator[Named]:
    """Yield the words of these ``lengths`` that ``text`` gives as a guess.

    Everyday words are no guesses, unless they are quoted or capitalised.

    >>> [move for *_, move in find_words("My next guess is crane, which is common.", (1, 5))]
    ['crane']
    >>> [move for *_, move in find_words("I guess the letter a.", (1, 5))]
    ['a']
    """
    spans: dict[tuple[int, int], str] = {}
    if text.isascii() and text.isalpha():  # one word needs no closer look
        is_guess = len(text) in lengths and (len(text) == 1 or text.lower() not in _EVERYDAY)
        return iter([(0, len(text), text.lower())] if is_guess else [])
    given: list[re.Match[str]] = []
    if any(len(word) in lengths for word in _LETTERS.findall(text)):
        first = _FIRST.match(text)
        given = [*_SHOWN.finditer(text), *_GUESSED.finditer(text), *([first] if first else ())]
    for one in given:
        at = one.lastindex or 1
        word = one[at].lower()
        if len(word) in lengths and (one.re is _SHOWN or word not in _EVERYDAY):
            spans[one.span(at)] = word
    for one in _BESIDE.finditer(text) if spans else ():
        words = one[1].lower(), one[2].lower()
        is_pair = all(len(word) in lengths and word not in _EVERYDAY for word in words)
        if is_pair and not spans.keys().isdisjoint((one.span(1), one.span(2))):
            spans |= {one.span(1): words[0], one.span(2): words[1]}
    for one in _SPELLED.finditer(text):
        if len(word := re.sub(r"\W", "", one[0]).lower()) in lengths:
            spans[one.span()] = word
    return apart((start, end, word) for (start, end), word in spans.items())
