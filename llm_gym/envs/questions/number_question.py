"""Questions with a number for an answer: sums and differences, and counted letters."""

import re
from abc import abstractmethod
from collections.abc import Sequence
from string import ascii_lowercase

import numpy as np

from llm_gym import Outcome, TextEnv, lose, reject, setting, win
from llm_gym.datasets.numbers import is_bare, parse_number
from llm_gym.envs.shared.word_list import all_words
from llm_gym.reading.moves import find_numbers


class NumberQuestion(TextEnv):
    """One question with one right number."""

    find_moves = staticmethod(find_numbers)
    move_name = "answer"
    is_markov = True
    max_turns = 1

    @abstractmethod
    def right_answer(self) -> int:
        """Return the number that wins."""

    def apply(self, move: str) -> Outcome:
        number = parse_number(move) if self.strict or is_bare(move) else None
        if number is None:
            return reject("Your answer must be one number.")
        if number == self.right_answer():
            return win(f"Yes, it is {number}.")
        return lose(f"No. {self.reveal()}")

    def reveal(self) -> str:
        return f"The answer is {self.right_answer()}."

    def oracle_move(self) -> str:
        return str(self.right_answer())


_CHAIN = re.compile(r"What is (\d+(?: [+-] \d+)+)\?")


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
        The question is a random chain of whole numbers with plus and minus signs between them.
        The answer is the value of the chain, which may be negative.

    Actions:
        A number, such as ``-13`` or ``The answer is -13.`` A reply without a number, or with two
        and no equals sign before the last, is unusable.

    Observations:
        The question, such as ``What is 12 + 5 - 30?``

    Rewards:
        1 for the value, otherwise 0.

    Episode end:
        Terminates with the first number: won or lost.

    Args:
        min_terms: Fewest numbers in a chain, at least 2.
        max_terms: Most numbers in a chain, at most 100.
        min_digits: Fewest digits of a number, at least 1.
        max_digits: Most digits of a number, at most 9.
        **common: See ``TextEnv``.
    """

    min_terms: int = setting(2, levels=(2, 12))
    max_terms: int = setting(6, 2, 100, levels=(2, 12))
    min_digits: int = setting(1, levels=(1, 6))
    max_digits: int = setting(4, 1, 9, levels=(1, 6))

    def check_settings(self) -> None:
        self.check_range("min_terms", 2, self.max_terms)
        self.check_range("min_digits", 1, self.max_digits)

    def new_game(self, rng: np.random.Generator) -> None:
        count = self.min_terms + int(rng.random() * (self.max_terms - self.min_terms + 1))
        terms = [str(self._number(*pair)) for pair in rng.random((count, 2)).tolist()]
        signs = [" + " if draw < 0.5 else " - " for draw in rng.random(count - 1).tolist()]
        signed = zip(signs, terms[1:], strict=True)
        self._chain = terms[0] + "".join(sign + term for sign, term in signed)

    def _number(self, length: float, value: float) -> int:
        """Return a number of random length; every length is equally likely."""
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
        return str(chain_value(_CHAIN.findall(observations[0])[0]))


_LETTERS = re.compile(r'letter "([a-z])" occur in "([a-z ]+)"')
_ANY_LETTER = 0.1
"""Probability of any letter of the alphabet, so that zero is a possible answer."""


class LetterCountingEnv(NumberQuestion):
    """Count how often a letter occurs in a few words.

    Description:
        A few common English words are drawn, and a letter, mostly one of theirs. The answer is
        how often the letter occurs in all of them together.

    Actions:
        A number, such as ``3`` or ``It occurs 3 times.`` A reply without a number, or with two, is
        unusable.

    Observations:
        The question with the letter and the words.

    Rewards:
        1 for the right count, otherwise 0.

    Episode end:
        Terminates with the answer (won or lost), as there is one turn.

    Args:
        min_words: Fewest words in a question, at least 1.
        max_words: Most words in a question, at most 500.
        **common: See ``TextEnv``.
    """

    min_words: int = setting(5, levels=(1, 50))
    max_words: int = setting(15, 1, 500, levels=(1, 50))

    def check_settings(self) -> None:
        self.check_range("min_words", 1, self.max_words)

    def new_game(self, rng: np.random.Generator) -> None:
        known = all_words()
        count = self.min_words + int(rng.random() * (self.max_words - self.min_words + 1))
        draws = rng.random(count + 2).tolist()
        words = [known[int(draw * len(known))] for draw in draws[2:]]
        letters = ascii_lowercase if draws[0] < _ANY_LETTER else "".join(words)
        self._letter = letters[int(draws[1] * len(letters))]
        self._text = " ".join(words)

    def rules_text(self) -> str:
        return "Count the letter. Your answer is one number; a wrong one loses."

    def example_moves(self) -> Sequence[str]:
        return ["3", "0"]

    def describe(self) -> str:
        return f'How many times does the letter "{self._letter}" occur in "{self._text}"?'

    def right_answer(self) -> int:
        return self._text.count(self._letter)

    def instance(self) -> object:
        return (self._letter, self._text)

    def random_move(self, rng: np.random.Generator) -> str:
        return str(int(rng.random() * (self.max_words + 1)))

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Say what is right most often."""
        return "1"

    def move_pattern(self) -> str | None:
        return r"[0-9]{1,4}"

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        letter, text = _LETTERS.findall(observations[0])[0]
        return str(text.count(letter))
