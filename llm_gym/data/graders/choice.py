"""Answers that are one of the options of a row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from llm_gym.core.reading.finders import apart, find_phrases
from llm_gym.core.reading.prose import Named
from llm_gym.data.graders.base import Grader, as_text, normalise

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
    """Return the place of the option that ``reply`` chooses, or None if it does not choose one.

    ``choices`` are the texts of the options, where they are known. A reply may be one of them;
    what could be a letter or a text is a letter, which is what the player was asked for.

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
    said = normalise(reply)
    return texts.index(said) if said in texts else None


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
    found += [(start, end, texts[said]) for start, end, said in find_phrases(text, [*texts])]
    return apart(found)


@dataclass(frozen=True)
class Choice(Grader):
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
