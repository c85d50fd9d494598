"""Answers that are numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from llm_gym.data.graders.base import Grader, as_text
from llm_gym.data.numbers import (
    MOST,
    final_part,
    find_values,
    is_said,
    parse_number,
    write_number,
)
from llm_gym.errors import ConfigError


@dataclass(frozen=True)
class Number(Grader):
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
        number = parse_number(as_text(answer))
        if number is None:
            raise ValueError(f"the answer must be one number, got {answer!r:.60}")
        return number

    def value(self, reply: str, choices: Sequence[str]) -> Fraction | None:
        return parse_number(reply) if is_said(reply) else None

    def named(self, text: str, choices: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        return find_values(text)

    def score(self, value: Fraction, key: Fraction) -> float:
        if not self.tolerance:
            return float(value == key)
        return float(abs(value - key) <= Fraction(self.tolerance) * abs(key))

    def say(self, answer: object, key: Fraction) -> str:
        if max(abs(key.numerator), key.denominator) < MOST:
            return write_number(key)
        return final_part(as_text(answer)).strip()  # too long in digits, so as it was written
