"""Count a letter in a few words: one question, one answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_lowercase
from typing import Any, Unpack

import numpy as np

from llm_gym.core.outcome import Outcome, lose, reject, win
from llm_gym.core.reading.finders import find_numbers
from llm_gym.core.reading.prose import Named
from llm_gym.core.text_env import CommonArgs, TextEnv
from llm_gym.data.numbers import is_bare, parse_number
from llm_gym.envs.shared.word_list import all_words
from llm_gym.errors import ConfigError

_QUESTION = re.compile(r'letter "([a-z])" occur in "([a-z ]+)"')
_ANY_LETTER = 0.1
"""Chance of a letter that the words may not have: zero is an answer too."""


class LetterCountingEnv(TextEnv):
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

    Info:
        The common keys: ``move``, ``reader``, ``valid_action``, ``success``, ``stop_reason``,
        ``reward_terms``, ``turn``, ``invalid_actions``.

    Args:
        min_words: Fewest words in a question, at least 1.
        max_words: Most words in a question, at most 500.
        **common: See ``TextEnv``.

    Version history:
        v0: First release.
    """

    move_name = "answer"
    observation_says_all = True
    max_turns = 1

    def __init__(
        self, *, min_words: int = 5, max_words: int = 15, **common: Unpack[CommonArgs]
    ) -> None:
        self.min_words, self.max_words = min_words, max_words
        super().__init__(**common)

    def check_settings(self) -> None:
        if not 1 <= self.min_words <= self.max_words <= 500:
            raise ConfigError(
                "min_words and max_words must be in order and from 1 to 500, "
                f"got {self.min_words} and {self.max_words}"
            )

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

    def _answer(self) -> int:
        return self._text.count(self._letter)

    def rules_text(self) -> str:
        return "Count the letter. Your answer is one number; a wrong one loses."

    def example_moves(self) -> Sequence[str]:
        return ["3", "0"]

    def describe(self) -> str:
        return f'How many times does the letter "{self._letter}" occur in "{self._text}"?'

    def apply(self, move: str) -> Outcome:
        number = parse_number(move) if self.strict or is_bare(move) else None
        if number is None:
            return reject("Your answer must be one number.")
        if number == self._answer():
            return win(f"Yes, it is {number}.")
        return lose(f"No. {self.reveal()}")

    def reveal(self) -> str:
        return f"The answer is {self._answer()}."

    def instance(self) -> object:
        return (self._letter, self._text)

    def random_move(self, rng: np.random.Generator) -> str:
        return str(int(rng.random() * (self.max_words + 1)))

    def named_moves(self, text: str) -> Iterator[Named]:
        return find_numbers(text)

    def move_pattern(self) -> str | None:
        return r"[0-9]{1,4}"

    def oracle_move(self) -> str:
        return str(self._answer())

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Count."""
        letter, text = _QUESTION.findall(observations[0])[0]
        return str(text.count(letter))
