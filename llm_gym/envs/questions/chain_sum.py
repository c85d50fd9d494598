"""Add and subtract a few numbers: one question, one answer."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from llm_gym.core.settings import setting
from llm_gym.envs.questions.number_question import NumberQuestion

_QUESTION = re.compile(r"What is (\d+(?: [+-] \d+)+)\?")


def chain_value(chain: str) -> int:
    """Return the value of numbers with plus and minus signs between them.

    >>> chain_value("12 + 5 - 30"), chain_value("0 - 7")
    (-13, -7)
    """
    first, *rest = chain.split()
    signed = zip(rest[::2], rest[1::2], strict=True)
    return int(first) + sum(int(term) if sign == "+" else -int(term) for sign, term in signed)


class ChainSumEnv(NumberQuestion):
    """Work out a chain of sums and differences.

    Description:
        A few whole numbers with plus and minus signs between them are drawn. The answer is the
        value of the chain, which may be negative.

    Actions:
        A number, such as ``-13`` or ``The answer is -13.`` A reply without a number, or with two
        and no equals sign before the last, is unusable.

    Observations:
        The question.

    Rewards:
        1 for the right number, otherwise 0.

    Episode end:
        Terminates with the answer: won if it is right, otherwise lost.

    Args:
        min_terms: Fewest numbers in a chain, at least 2.
        max_terms: Most numbers in a chain, at most 100.
        min_digits: Fewest digits of a number, at least 1.
        max_digits: Most digits of a number, at most 9.
        **common: See ``TextEnv``.
    """

    min_terms: int = setting(2)
    max_terms: int = setting(6, 2, 100)
    min_digits: int = setting(1)
    max_digits: int = setting(4, 1, 9)

    def check_settings(self) -> None:
        self.check_range("min_terms", 2, self.max_terms)
        self.check_range("min_digits", 1, self.max_digits)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        terms, digits = round(2 + 10 * difficulty), round(1 + 5 * difficulty)
        return {"min_terms": terms, "max_terms": terms, "min_digits": digits, "max_digits": digits}

    def new_game(self, rng: np.random.Generator) -> None:
        count = self.min_terms + int(rng.random() * (self.max_terms - self.min_terms + 1))
        terms = [str(self._number(*pair)) for pair in rng.random((count, 2)).tolist()]
        signs = [" + " if draw < 0.5 else " - " for draw in rng.random(count - 1).tolist()]
        signed = zip(signs, terms[1:], strict=True)
        self._chain = terms[0] + "".join(sign + term for sign, term in signed)

    def _number(self, length: float, value: float) -> int:
        """Return a number of random length: as many of one digit as of four."""
        digits = self.min_digits + int(length * (self.max_digits - self.min_digits + 1))
        low = 10 ** (digits - 1) if digits > 1 else 0
        return low + int(value * (10**digits - low))

    def rules_text(self) -> str:
        return "Work out the value. Your answer is one number; a wrong one loses."

    def example_moves(self) -> Sequence[str]:
        return ["-13", "0", "42"]

    def describe(self) -> str:
        return f"What is {self._chain}?"

    def right_answer(self) -> int:
        return chain_value(self._chain)

    def instance(self) -> object:
        return self._chain

    def random_move(self, rng: np.random.Generator) -> str:
        most = 10**self.max_digits
        return str(int((2 * rng.random() - 1) * most))

    def move_pattern(self) -> str | None:
        return r"-?[0-9]{1,12}"

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        return str(chain_value(_QUESTION.findall(observations[0])[0]))
