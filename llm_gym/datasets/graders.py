"""Graders: decide whether a reply gives the right answer.

A grader turns the gold answer into a *key* once, turns a reply into a *value* (None if the reply is
unusable; the player is told so), and compares the two. It is pure, takes time linear in the reply,
and gives no credit for a reply that mentions the answer among others.

``grader="number"`` is a built-in grader with default settings; ``NumberGrader(tolerance=0.01)``
sets them. A function ``(reply, answer)`` that returns a score from 0 to 1 is a grader, too, and so
is ``(reply, row)``, which gets the whole row of the data set.
"""

import inspect
import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from llm_gym.core.errors import ConfigError
from llm_gym.datasets import numbers
from llm_gym.reading.moves import Named, apart, find_phrases

_QUOTES = " \"'`*\u201c\u201d\u2018\u2019"


class Grader(ABC):
    """Compares replies with gold answers."""

    asks: ClassVar[str]
    """What the player is told about the answer."""
    examples: ClassVar[tuple[str, ...]] = ("your answer",)
    pattern: ClassVar[str | None] = None
    """Regex of usable replies; None for any text."""
    trusted: ClassVar[bool] = True
    """Whether every row's own answer is graded when a data set is opened. True for the graders
    here, which are cheap and pure; False for functions of the user."""

    @abstractmethod
    def key(self, answer: object, choices: Sequence[str]) -> Any:
        """Return ``answer`` in the form that replies are compared with, or raise ``ValueError``."""

    @abstractmethod
    def value(self, reply: str, choices: Sequence[str]) -> Any:
        """Return the answer in ``reply``, or None if it cannot be used."""

    def named(self, text: str, choices: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and answer for every answer that a sentence names.

        Yield nothing if any text can be an answer.
        """
        return iter(())

    def score(self, value: Any, key: Any) -> float:
        """Return 1 for the right answer, 0 for a wrong one, or something between."""
        return float(value == key)

    def say(self, answer: object, key: Any) -> str:
        """Return a reply that gives the right answer."""
        return as_text(answer).strip()


def as_text(answer: object) -> str:
    """Return a gold answer or an option as text. ``ValueError`` says why it is none.

    >>> as_text(42), as_text(42.0), as_text(0.5), as_text(True)
    ('42', '42', '0.5', 'true')
    """
    if isinstance(answer, str):
        return answer
    if isinstance(answer, np.generic):
        answer = answer.item()
    if isinstance(answer, bool):
        return str(answer).lower()
    if isinstance(answer, int):
        return str(answer)
    if isinstance(answer, float) and math.isfinite(answer):
        return str(int(answer)) if answer.is_integer() else repr(answer)
    raise ValueError(f"an answer or an option must be text or a number, got {answer!r:.60}")


def normalise(text: str) -> str:
    """Return ``text`` without differences that do not matter to a reader.

    These are case, repeated white space, surrounding quotes or asterisks, and a final full stop.

    >>> normalise('  "The  Nile." '), normalise("-5"), normalise("...")
    ('the nile', '-5', '...')
    """
    flat = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    return flat.strip(_QUOTES).rstrip(".!").strip(_QUOTES) or flat


_TOKEN = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
_HEDGES = frozenset({"or", "not", "no", "nor", "neither", "never", "cannot", "/", "|", ";"})


@dataclass(frozen=True)
class ExactGrader(Grader):
    """The same text after ``normalise``."""

    asks = "Answer with nothing but the answer."

    def key(self, answer: object, choices: Sequence[str]) -> str:
        return normalise(as_text(answer))

    def value(self, reply: str, choices: Sequence[str]) -> str:
        return normalise(reply)


@dataclass(frozen=True)
class ContainsGrader(Grader):
    """The answer, as whole words, in a short sentence that does not hedge.

    A reply that lists everything would contain every answer. So it may have only a few words
    beside the answer, no alternatives ("or", a slash, a semicolon) and no denial ("not").
    Where you can, use ``exact`` or ``choice``, which cannot be gamed.

    Args:
        extra_words: Words and signs that a reply may have beside the answer.
    """

    extra_words: int = 8
    asks = "Answer in a few words and commit to one answer."

    def __post_init__(self) -> None:
        if self.extra_words < 0:
            raise ConfigError(f"extra_words must not be negative, got {self.extra_words}")

    def key(self, answer: object, choices: Sequence[str]) -> list[str]:
        tokens = _tokens(as_text(answer))
        if not tokens:
            raise ValueError(f"the answer must have words, got {answer!r:.60}")
        return tokens

    def value(self, reply: str, choices: Sequence[str]) -> list[str]:
        return _tokens(reply)

    def score(self, value: list[str], key: list[str]) -> float:
        before, found, after = f" {' '.join(value)} ".partition(f" {' '.join(key)} ")
        rest = [*before.split(), *after.split()]
        commits = not any(word in _HEDGES or word.endswith("n't") for word in rest)
        return float(bool(found) and commits and len(rest) <= self.extra_words)


def _tokens(text: str) -> list[str]:
    plain = unicodedata.normalize("NFC", text).casefold().replace("\u2019", "'")
    return _TOKEN.findall(plain)


@dataclass(frozen=True)
class NumberGrader(Grader):
    """The same number, however it is written; see ``parse_number``.

    Args:
        tolerance: Share of the answer by which a reply may be off: 0.01 is one percent.
    """

    tolerance: float = 0.0
    asks = "Answer with one number."
    examples = ("42", "-3.5")
    pattern = r"-?[0-9]{1,40}(?:,[0-9]{3}){0,12}(?:\.[0-9]{1,40})?(?:/[1-9][0-9]{0,39})?"

    def __post_init__(self) -> None:
        if not 0.0 <= self.tolerance < 1.0:
            raise ConfigError(f"tolerance must be in [0, 1), got {self.tolerance}")

    def key(self, answer: object, choices: Sequence[str]) -> Fraction:
        number = numbers.parse_number(as_text(answer))
        if number is None:
            raise ValueError(f"the answer must be one number, got {answer!r:.60}")
        return number

    def value(self, reply: str, choices: Sequence[str]) -> Fraction | None:
        return numbers.parse_number(reply) if numbers.is_stated(reply) else None

    def named(self, text: str, choices: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        return numbers.find_values(text)

    def score(self, value: Fraction, key: Fraction) -> float:
        if not self.tolerance:
            return float(value == key)
        return float(abs(value - key) <= Fraction(self.tolerance) * abs(key))

    def say(self, answer: object, key: Fraction) -> str:
        if max(abs(key.numerator), key.denominator) < numbers.MOST:
            return numbers.write_number(key)
        return numbers.final_part(as_text(answer)).strip()  # too long in digits: as it was written


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LEAD = re.compile(
    r"(?:(?:the|my) )?(?:(?:correct|final|best|right) )?(?:answer|choice|option)\b(?: is)?\s?:?\s?",
    re.IGNORECASE,
)
_LETTER = re.compile(r"[\s(\[*\"'`]{0,9}([A-Za-z])(?:[)\].:*\"'`]+(?:\s(.*))?)?", re.DOTALL)

_MENTION = re.compile(r"(?<![\w'])([A-Z])(?![\w'])")
# "A" and "I" are letters where no noun or verb follows.
_STANDS = re.compile(
    r"[\s*]{0,3}(?:[^\w\s]|$|(?:is|was|or|and|because|since|as|it|not|seems|looks|would)\b)"
)


def parse_choice(reply: str, choices: Sequence[str] = ()) -> int | None:
    """Return the index of the option that ``reply`` chooses, or None.

    ``choices`` are the texts of the options, if known. A reply may be one of them; if it could be a
    letter or a text, it counts as a letter, because the prompt asks for a letter.

    >>> [parse_choice(text) for text in ("B", "(b)", "B.", "The answer is B.", "A or B", "A dog")]
    [1, 1, 1, 1, None, None]
    >>> options = ["cat", "dog"]
    >>> [parse_choice(text, options) for text in ("dog", "B) dog", "A) dog", "C")]
    [1, 1, None, None]
    """
    texts = [normalise(choice) for choice in choices]
    lead = _LEAD.match(reply)
    found = _LETTER.fullmatch(reply, lead.end() if lead else 0)
    if found is not None:
        place, rest = LETTERS.index(found[1].upper()), normalise(found[2] or "")
        if place < len(texts) and rest in ("", texts[place]):
            return place
        if not texts and not rest:
            return place
    reply = normalise(reply)
    return texts.index(reply) if reply in texts else None


def find_choices(text: str, choices: Sequence[str]) -> Iterator[Named]:
    """Yield the letters of the options that a sentence names, by letter or by text.

    >>> options = ["London", "Paris"]
    >>> [letter for *_, letter in find_choices("A is London, I say (B). A city.", options)]
    ['A', 'A', 'B']
    """
    letters = LETTERS[: len(choices) or None]
    found = [
        (*one.span(), one[1])
        for one in _MENTION.finditer(text)
        if one[1] in letters and (one[1] not in "AI" or _STANDS.match(text, one.end()))
    ]
    texts = {choice: LETTERS[at] for at, choice in enumerate(choices[: len(LETTERS)]) if choice}
    found += [(start, end, texts[choice]) for start, end, choice in find_phrases(text, [*texts])]
    return apart(found)


@dataclass(frozen=True)
class ChoiceGrader(Grader):
    """The letter of the right option, or its text where the row lists the options."""

    asks = "Answer with the letter of the right option."
    examples = ("A", "B")
    pattern = "[A-Z]"

    def key(self, answer: object, choices: Sequence[str]) -> int:
        if isinstance(answer, (int, np.integer)) and not isinstance(answer, bool):
            answer = int(answer)
            if not 0 <= answer < (len(choices) or len(LETTERS)):
                raise ValueError(f"the answer must be the place of an option, got {answer}")
            return answer
        place = parse_choice(as_text(answer), choices)
        if place is None:
            listed = f" or one of {list(choices)!r:.200}" if choices else ""
            raise ValueError(f"the answer must be the letter of an option{listed}, got {answer!r}")
        return place

    def value(self, reply: str, choices: Sequence[str]) -> int | None:
        return parse_choice(reply, choices)

    def named(self, text: str, choices: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        return find_choices(text, choices)

    def say(self, answer: object, key: int) -> str:
        return LETTERS[key]


class FunctionGrader(Grader):
    """A function of reply and answer that returns True, False or a score from 0 to 1."""

    asks = "Answer the question."
    trusted = False

    def __init__(self, function: Callable[[str, Any], float]) -> None:
        self.function = function
        self.takes_row = False
        """Whether the function's second argument is called ``row``, and gets the whole row."""
        try:
            taken = inspect.signature(function)
            taken.bind("", "")
            self.takes_row = list(taken.parameters)[1:2] == ["row"]
        except TypeError as error:
            raise ConfigError(f"a grader takes a reply and an answer, or a row: {error}") from error
        except ValueError:  # a builtin that does not say what it takes
            return

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionGrader) and other.function is self.function

    def __hash__(self) -> int:
        return id(self.function)

    def key(self, answer: object, choices: Sequence[str]) -> object:
        return answer

    def value(self, reply: str, choices: Sequence[str]) -> str:
        return reply

    def score(self, value: str, key: object) -> float:
        given: Any = self.function(value, key)
        try:
            score = math.nan if isinstance(given, str) else float(given)
        except (TypeError, ValueError):
            score = math.nan
        if not 0.0 <= score <= 1.0:
            name = getattr(self.function, "__name__", "the function")
            raise ConfigError(f"a grader returns a score from 0 to 1, {name} gave {given!r:.60}")
        return score


GRADERS: dict[str, Grader] = {
    "exact": ExactGrader(),
    "number": NumberGrader(),
    "choice": ChoiceGrader(),
    "contains": ContainsGrader(),
}
"""Built-in graders by name."""


def get_grader(grader: str | Grader | Callable[[str, Any], float]) -> Grader:
    """Return the grader for a setting: a name, a grader or a function."""
    if isinstance(grader, Grader):
        return grader
    if isinstance(grader, str) and grader in GRADERS:
        return GRADERS[grader]
    if callable(grader):
        return FunctionGrader(grader)
    names = ", ".join(GRADERS)
    raise ConfigError(f"grader must be one of {names}, or a function, got {grader!r:.60}")
