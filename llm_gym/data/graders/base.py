"""What a grader is: it turns an answer and a reply into what can be compared."""

from __future__ import annotations

import math
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

_QUOTES = " \"'`*\u201c\u201d\u2018\u2019"


class Grader(ABC):
    """Compares replies with gold answers."""

    asks: ClassVar[str]
    """What the player is told about the answer."""
    examples: ClassVar[tuple[str, ...]]
    pattern: ClassVar[str | None] = None
    """Regex of what can be used as a reply; None for any text."""
    trusted: ClassVar[bool] = True
    """Whether every row's own answer is graded when a data set is opened: cheap and without
    effects for the graders here, but not for a function of someone else's."""

    @abstractmethod
    def key(self, answer: object, choices: Sequence[str]) -> Any:
        """Return ``answer`` as replies are compared with it. ``ValueError`` says why not."""

    @abstractmethod
    def value(self, reply: str, choices: Sequence[str]) -> Any:
        """Return what ``reply`` says, or None where it cannot be used."""

    def named(self, text: str, choices: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and answer for every answer that a sentence names.

        Nothing where any text is an answer: there the whole reply is it.
        """
        return iter(())

    def score(self, value: Any, key: Any) -> float:
        """Return 1 for the right answer, 0 for a wrong one, or something between."""
        return float(value == key)

    def say(self, answer: object, key: Any) -> str:
        """Return what a player who knows the answer, and its key, writes."""
        return as_text(answer).strip()


def as_text(answer: object) -> str:
    """Return a gold answer as text. ``ValueError`` says why it is none.

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
    raise ValueError(f"the answer must be text or a number, got {answer!r:.60}")


def normalise(text: str) -> str:
    """Return ``text`` without differences that no reader would call one.

    Case, runs of white space, quotes or asterisks around it and a full stop behind it.

    >>> normalise('  "The  Nile." '), normalise("-5"), normalise("...")
    ('the nile', '-5', '...')
    """
    flat = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    return flat.strip(_QUOTES).rstrip(".!").strip(_QUOTES) or flat
