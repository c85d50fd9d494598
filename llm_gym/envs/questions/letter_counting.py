"""Count a letter in a few words: one question, one answer."""

import re
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

import numpy as np

from llm_gym.core.settings import setting
from llm_gym.envs.questions.number_question import NumberQuestion
from llm_gym.envs.shared.word_list import all_words

_QUESTION = re.compile(r'letter "([a-z])" occur in "([a-z ]+)"')
_ANY_LETTER = 0.1
"""Chance of a letter that the words may not have: zero is an answer too."""


class LetterCountingEnv(NumberQuestion):
    """Count how often a letter occurs in a few words.

    Description:
        A few common English words are drawn, and a letter, mostly one of theirs. The answer is
        how often the letter occurs in all of them together.

    Actions:
        A number, such as ``3`` or ``It occurs 3 times.`` A reply without a number, or with two, is
        unusable.

    Observations:
        The question.

    Rewards:
        1 for the right number, otherwise 0.

    Episode end:
        Terminates with the answer: won if it is right, otherwise lost.

    Args:
        min_words: Fewest words in a question, at least 1.
        max_words: Most words in a question, at most 500.
        **common: See ``TextEnv``.
    """

    min_words: int = setting(5)
    max_words: int = setting(15, 1, 500)

    def check_settings(self) -> None:
        self.check_range("min_words", 1, self.max_words)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        words = round(1 + 49 * difficulty)
        return {"min_words": words, "max_words": words}

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
        letter, text = _QUESTION.findall(observations[0])[0]
        return str(text.count(letter))
