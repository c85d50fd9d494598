"""Count upwards, one number a turn: the smallest game that spans several turns."""

import re
from collections.abc import Sequence

import numpy as np

from llm_gym import Outcome, TextEnv, go_on, lose, reject, setting, win
from llm_gym.reading.moves import find_numbers

_NUMBER = re.compile(r"(?:say )?([0-9]{1,9})\.?", re.IGNORECASE)
_LAST = re.compile(r"after (\d+) comes 1")
_START = re.compile(r"I say (\d+)\.")


def parse_number(move: str) -> int | None:
    """Return the number in ``move``, or None if it is anything else.

    >>> parse_number("3"), parse_number("say 12"), parse_number("3, 4"), parse_number("three")
    (3, 12, None, None)
    """
    found = _NUMBER.fullmatch(move)
    return int(found[1]) if found else None


class CountEnv(TextEnv):
    """Count upwards from a number that is said once, one number a turn.

    Description:
        The first observation shows a number; every turn asks for the next one. After
        ``numbers`` comes 1 again. Observations do not repeat the current number, so the player
        finds it only in its own last answer.

    Actions:
        A number, such as ``3`` or ``say 3``. A number outside the range is unusable.

    Observations:
        The first observation shows the number; later ones only ask for the next number.

    Rewards:
        1 / ``max_turns`` for each right number, paid in its turn: 1 for a faultless episode. A
        random player is faultless with probability ``numbers`` ** -``max_turns`` and gets on
        average the sum of ``numbers`` ** -k over k = 1 .. ``max_turns``, divided by
        ``max_turns``.

    Episode end:
        Terminates on a wrong number (lost), on the last right one (won) and after
        ``max_turns`` turns (lost).

    Args:
        numbers: Numbers to count with, 2 to 1000.
        max_turns: Numbers to say.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_numbers)
    has_splits = False

    numbers: int = setting(5, 2, 1000, levels=(2, 20))
    max_turns: int = setting(3, 1, levels=(1, 10))

    def new_game(self, rng: np.random.Generator) -> None:
        self._start = self._last = int(rng.integers(1, self.numbers, endpoint=True))
        self._right = 0

    def _next(self) -> int:
        return self._last % self.numbers + 1

    def rules_text(self) -> str:
        return (
            "I say a number. Count on from it: your move is the next number, one a turn; "
            f"after {self.numbers} comes 1. A wrong number loses."
        )

    def example_moves(self) -> Sequence[str]:
        return ["1", str(self.numbers)]

    def describe(self) -> str:
        return "And next?" if self._right else f"I say {self._start}."

    def apply(self, move: str) -> Outcome:
        number = parse_number(move)
        if number is None or not 1 <= number <= self.numbers:
            return reject(f"Your move must be a number from 1 to {self.numbers}.")
        if number != self._next():
            return lose(f"No, {self._next()} comes next.")
        self._last, self._right = number, self._right + 1
        answer = win if self._right == self.max_turns else go_on
        return answer("Yes.", 1 / self.max_turns)

    def instance(self) -> object:
        return (self.numbers, self._start)

    def legal_moves(self) -> Sequence[str]:
        return [str(number) for number in range(1, self.numbers + 1)]

    def oracle_move(self) -> str:
        return str(self._next())

    def oracle_value(self) -> float:
        return float(self._right == self.max_turns - self.turns_left)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Add one to the last number that was accepted."""
        last, start = _LAST.findall(observations[0])[0], _START.findall(observations[0])[0]
        accepted = sum(text.startswith("Yes.") for text in observations[1:])
        return str((int(start) + accepted) % int(last) + 1)
