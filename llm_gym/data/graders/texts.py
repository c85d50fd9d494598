"""Answers that are words: the same text, a text that contains it, a pattern that fits."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from llm_gym.data.graders.base import Grader, as_text, normalise
from llm_gym.data.patterns import LinearPattern
from llm_gym.errors import ConfigError

_TOKEN = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
_HEDGES = frozenset({"or", "not", "no", "nor", "neither", "never", "cannot", "/", "|", ";"})


@dataclass(frozen=True)
class Exact(Grader):
    """The same text, apart from what ``normalise`` passes over."""

    asks = "Answer with nothing but the answer."
    examples = ("your answer",)

    def key(self, answer: object, choices: Sequence[str]) -> str:
        return normalise(as_text(answer))

    def value(self, reply: str, choices: Sequence[str]) -> str:
        return normalise(reply)


@dataclass(frozen=True)
class Contains(Grader):
    """The answer, as whole words, in a short sentence that does not hedge.

    A reply that lists everything would contain every answer. So it may have only a few words
    beside the answer, no alternatives ("or", a slash, a semicolon) and no denial ("not").
    Where you can, use ``exact`` or ``choice``, which cannot be played at all.

    Args:
        extra_words: Words and signs that a reply may have beside the answer.
    """

    extra_words: int = 8
    asks = "Answer in a few words and commit to one answer."
    examples = ("your answer",)

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
class Regex(Grader):
    """A reply that the answer, a regular expression, fits from end to end.

    It is matched in linear time; see ``LinearPattern`` for what it may hold.
    """

    asks = "Answer with nothing but the answer."
    examples = ("your answer",)

    def key(self, answer: object, choices: Sequence[str]) -> LinearPattern:
        return LinearPattern(as_text(answer))

    def value(self, reply: str, choices: Sequence[str]) -> str:
        return reply

    def score(self, value: str, key: LinearPattern) -> float:
        return float(key.matches(value))

    def say(self, answer: object, key: LinearPattern) -> str:
        return key.example()
