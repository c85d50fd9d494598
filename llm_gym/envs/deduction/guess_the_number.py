"""Find a hidden number from "higher" and "lower"."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from llm_gym import Outcome, TextEnv, go_on, reject, setting, win
from llm_gym.reading.moves import find_numbers

_NUMBER = re.compile(r"(?:guess )?([+-]?[0-9]{1,18})", re.IGNORECASE)
_LARGEST = 10**15
_RANGE = re.compile(r"whole number from (-?\d+) to (-?\d+)")
_HINT = re.compile(r"The number is (higher|lower) than (-?\d+)")


@lru_cache(maxsize=4096)  # the same moves come again and again
def parse_guess(move: str) -> int | None:
    """Return the number in ``move``, or None if it is anything else.

    >>> parse_guess("0")  # zero is a guess, not a missing guess
    0
    >>> parse_guess("guess 42"), parse_guess("4 or 5")
    (42, None)
    """
    found = _NUMBER.fullmatch(move)
    return int(found[1]) if found else None


class GuessTheNumberEnv(TextEnv):
    """Find a hidden whole number within a few guesses.

    Description:
        The environment hides a number between ``low`` and ``high``, both included. Each wrong
        guess is answered with "higher" or "lower".

    Actions:
        A whole number, such as ``7`` or ``guess 7``. Anything else, and a number outside the
        range, is unusable.

    Observations:
        The answer to the last guess and the turns left. Earlier answers are not repeated.

    Rewards:
        1 for the right number, otherwise 0. With ``shaping``, the potential is the share of the
        needed information (in bits) that the answers have given so far.

    Episode end:
        Terminates on the right number (won) and after ``max_turns`` guesses (lost).

    Args:
        low: Smallest number that may be hidden.
        high: Largest number that may be hidden.
        max_turns: Guesses allowed.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_numbers)
    has_splits = False
    move_name = "guess"

    low: int = setting(1)
    high: int = setting(20, -_LARGEST, _LARGEST)
    max_turns: int = setting(5, 1)

    def check_settings(self) -> None:
        self.check_range("low", -_LARGEST, self.high - 1, "below high")

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        # Binary search needs exactly these turns, so every level can be won, with none to spare.
        numbers = round(8 * 128**difficulty)
        return {"low": 1, "high": numbers, "max_turns": numbers.bit_length()}

    def new_game(self, rng: np.random.Generator) -> None:
        self._target = self.low + int(rng.random() * (self.high - self.low + 1))
        self._from, self._to = self.low, self.high  # what the answers so far leave possible

    def rules_text(self) -> str:
        return (
            f"I am thinking of a whole number from {self.low} to {self.high}. After each guess I "
            "say whether it is higher or lower. Your guess is one number."
        )

    def example_moves(self) -> Sequence[str]:
        return [str(self.low), str((self.low + self.high) // 2), str(self.high)]

    def describe(self) -> str:
        return f"Turns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        guess = parse_guess(move)
        if guess is None:
            return reject("Your move must be one whole number.")
        if not self.low <= guess <= self.high:
            return reject(f"Your guess must be from {self.low} to {self.high}.")
        if guess < self._target:
            self._from = max(self._from, guess + 1)
            return go_on(f"The number is higher than {guess}.")
        if guess > self._target:
            self._to = min(self._to, guess - 1)
            return go_on(f"The number is lower than {guess}.")
        return win(f"Yes, the number is {guess}.")

    def reveal(self) -> str:
        return f"The number was {self._target}."

    def instance(self) -> object:
        return (self.low, self.high, self._target)

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Guess any number that the hints leave possible."""
        return str(rng.integers(self._from, self._to, endpoint=True))

    def swap_secret(self, rng: np.random.Generator) -> bool:
        if self._from == self._to:
            return False
        other = int(rng.integers(self._from, self._to))  # one number fewer: the target is left out
        self._target = other + (other >= self._target)
        return True

    def legal_moves(self) -> Sequence[str] | None:
        if self.high - self.low >= 1000:
            return None
        return [str(number) for number in range(self.low, self.high + 1)]

    def random_move(self, rng: np.random.Generator) -> str:
        return str(rng.integers(self.low, self.high, endpoint=True))

    def move_pattern(self) -> str | None:
        return r"-?[0-9]{1,18}"

    def oracle_move(self) -> str:
        return str(self._target)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Binary search."""
        low, high = map(int, _RANGE.findall(observations[0])[0])
        for answer in observations[1:]:
            if hint := _HINT.match(answer):
                if hint[1] == "higher":
                    low = max(low, int(hint[2]) + 1)
                else:
                    high = min(high, int(hint[2]) - 1)
        return str((low + high) // 2)

    def potential(self) -> float:
        return 1 - math.log(self._to - self._from + 1) / math.log(self.high - self.low + 1)
