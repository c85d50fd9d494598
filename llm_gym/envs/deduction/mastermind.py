"""Find a hidden code; each guess is answered with black and white pegs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import perm
from operator import eq
from typing import Any

import numpy as np

from llm_gym import Outcome, TextEnv, go_on, reject, setting, win
from llm_gym.reading.moves import Find, Named, find_with

Code = tuple[int, ...]
Answer = tuple[Code, int, int]


def pegs(guess: Code, code: Code) -> tuple[int, int]:
    """Return the black pegs (right number, right place) and white ones (right number only).

    Each number of the code matches at most one number of the guess.

    >>> pegs((1, 1, 2, 2), (1, 2, 3, 4))
    (1, 1)
    """
    black, rest = sum(map(eq, guess, code)), list(code)
    for number in guess:
        if number in rest:
            rest.remove(number)
    return black, len(code) - len(rest) - black


def fitting_codes(
    numbers: Sequence[int], length: int, repeats: bool, answers: Sequence[Answer]
) -> Iterator[Code]:
    """Yield the codes that would have got these ``answers``.

    A depth-first search, place by place: it drops a prefix as soon as one answer is impossible.
    So the first codes come quickly, even if millions of codes fit. Every place begins with another
    number, since a first guess of different numbers tells more than one of equal numbers.

    >>> sorted(fitting_codes([1, 2, 3], 2, False, [((1, 2), 0, 1)]))
    [(2, 3), (3, 1)]
    """
    counts = [{n: guess.count(n) for n in numbers} for guess, _, _ in answers]

    def extend(start: Code, needs: list[tuple[int, int]]) -> Iterator[Code]:
        at = len(start)
        if at == length:
            yield start
            return
        turn = 3 * at % len(numbers)
        for number in (*numbers[turn:], *numbers[:turn]):
            used = start.count(number)
            if used and not repeats:
                continue
            after = []
            for (guess, _, _), count, (black, shared) in zip(answers, counts, needs, strict=True):
                black -= guess[at] == number
                shared -= count[number] > used
                if not (0 <= black < length - at and 0 <= shared < length - at):
                    break
                after.append((black, shared))
            else:
                yield from extend((*start, number), after)

    # What each answer still needs: numbers in their place, and numbers in any place.
    return extend((), [(black, black + white) for _, black, white in answers])


_RANGE = re.compile(r"code of (\d+) numbers, each from 1 to (\d+)(, no two alike)?")
_ANSWER = re.compile(r"^([\d ]+): (\d+) black, (\d+) white", re.MULTILINE)
_MOST_NUMBERS = 20
_VALUES = {str(number): number for number in range(1, _MOST_NUMBERS + 1)}
_MOST_TURNS = 100  # every observation lists the guesses
_MANY = 200
"""With fewer possible codes, there are no train and test splits."""


@lru_cache(maxsize=4096)  # the same moves come again and again
def parse_code(move: str) -> Code | None:
    """Return the numbers in ``move``, or None if there is anything else in it.

    >>> parse_code("2 1 4 5"), parse_code("[2, 1, 4, 5]"), parse_code("Guess 12 3")
    ((2, 1, 4, 5), (2, 1, 4, 5), (12, 3))
    >>> parse_code("2145")  # digits without gaps are numbers of one digit
    (2, 1, 4, 5)
    >>> parse_code("0 1"), parse_code("1 2 x"), parse_code("[]")
    (None, None, None)
    """
    if not "1" <= move[:1] <= "9" or "," in move:
        move = move.strip("[]").replace(",", " ").lower().removeprefix("guess ")
    cells: Sequence[str] = move.split()
    if len(cells) == 1:
        cells = cells[0]
    try:
        return tuple([_VALUES[cell] for cell in cells]) or None
    except KeyError:
        return None


_CELL = re.compile(r"[0-9]+")
_CODE = re.compile(
    r"(?<![\w.,-])[0-9]{1,2}(?:(?:,? and |, ?| [|-] |[ |-])[0-9]{1,2})+(?![\w:]|[ ,|-]+[0-9])|"
    r"(?<![\w.,])[0-9]{2,12}(?![\w:]|[.,][0-9])"
)


def find_codes(text: str, length: int) -> Iterator[Named]:
    """Yield the codes of ``length`` numbers in ``text``.

    >>> [move for *_, move in find_codes("I guess 2, 1, 4, 5 of 1 to 6; 2145 again", 4)]
    ['2 1 4 5', '2 1 4 5']
    """
    for one in _CODE.finditer(text):
        cells = _CELL.findall(one[0])
        if len(cells) == 1:
            cells = list(cells[0])
        if len(cells) == length:
            yield one.start(), one.end(), " ".join(cells)


@lru_cache(maxsize=4096)
def _written(code: Code) -> str:
    return " ".join(map(str, code))


class MastermindEnv(TextEnv):
    """Find a hidden code of numbers within a few guesses.

    Description:
        The environment hides a code. Each wrong guess is answered with a black peg for every
        right number in the right place and a white peg for every further number of the code
        that stands in another place; a number of the code earns one peg at most.

    Actions:
        Numbers such as ``1 2 3 4``. ``1, 2, 3, 4``, ``[1 2 3 4]``, ``guess 1 2 3 4`` and, if it
        is unambiguous, ``1234`` also work. A wrong count of numbers, or a number out of range, is
        unusable. A guess may repeat a number even if the code may not, and may be made again.

    Observations:
        All guesses so far with their answers, or with ``history=False`` only the last one, and
        the turns left.

    Rewards:
        1 for the right code, otherwise 0. With ``shaping``, the potential is the largest share
        of black pegs among the guesses so far.

    Episode end:
        Terminates on the right code (won) and after ``max_turns`` guesses (lost).

    Args:
        code_length: Numbers in the code, 2 to 8.
        numbers: The largest number that a place may hold, 2 to 20; the smallest is 1.
        duplicates: Whether a number may occur twice in the code.
        history: Show all guesses so far in every observation; False shows the last answer only.
        max_turns: Guesses allowed, 1 to 100.
        **common: See ``TextEnv``.
    """

    move_name = "guess"

    code_length: int = setting(4, 2, 8)
    numbers: int = setting(6)
    duplicates: bool = setting(False)
    history: bool = setting(True)
    max_turns: int = setting(20, 1, _MOST_TURNS)

    @property
    def is_markov(self) -> bool:
        return self.history

    def check_settings(self) -> None:
        least = 2 if self.duplicates else self.code_length
        self.check_range("numbers", least, _MOST_NUMBERS)
        codes = self.numbers**self.code_length
        if not self.duplicates:
            codes = perm(self.numbers, self.code_length)
        self.has_splits = codes >= _MANY

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        return {
            "code_length": round(2 + 4 * difficulty),
            "numbers": round(4 + 8 * difficulty),
            "duplicates": difficulty > 0.5,
            "max_turns": round(8 + 8 * difficulty),
        }

    def new_game(self, rng: np.random.Generator) -> None:
        self._code = self._draw_code(rng)
        self._guesses: list[Code] = []
        self._board, self._most = "", 0  # most black pegs of a guess

    def _draw_code(self, rng: np.random.Generator) -> Code:
        numbers = list(range(1, self.numbers + 1))
        take = numbers.__getitem__ if self.duplicates else numbers.pop
        return tuple([take(int(rng.random() * len(numbers))) for _ in range(self.code_length)])

    def rules_text(self) -> str:
        alike = "numbers may repeat" if self.duplicates else "no two alike"
        return (
            f"I hide a code of {self.code_length} numbers, each from 1 to {self.numbers}, {alike}. "
            "I answer each guess with a black peg for every right number in the right place, and a "
            "white peg for every other number of the code that your guess has in a wrong place. "
            f"Your guess is {self.code_length} numbers with spaces between them and may repeat a "
            "number."
        )

    def example_moves(self) -> Sequence[str]:
        first = tuple(n % self.numbers + 1 for n in range(1, self.code_length + 1))
        return [_written(first), _written((self.numbers,) * self.code_length)]

    def describe(self) -> str:
        return f"{self._board}Turns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        guess = parse_code(move)
        if guess is None or len(guess) != self.code_length or max(guess) > self.numbers:
            return reject(
                f"Your guess must be {self.code_length} numbers from 1 to {self.numbers}, "
                "with spaces between them."
            )
        if guess == self._code:
            return win(f"Yes, {_written(guess)} is the code.")
        self._guesses.append(guess)
        black, white = pegs(guess, self._code)
        self._most = max(self._most, black)
        answer = f"{_written(guess)}: {black} black, {white} white."
        if not self.history:
            return go_on(answer)
        self._board += f"{answer}\n"
        return go_on()

    def reveal(self) -> str:
        return f"The code was {_written(self._code)}."

    def instance(self) -> object:
        return (self.numbers, self.duplicates, self._code)

    def swap_secret(self, rng: np.random.Generator) -> bool:
        answers = [(guess, *pegs(guess, self._code)) for guess in self._guesses]
        shuffled = (rng.permutation(self.numbers) + 1).tolist()
        for code in fitting_codes(shuffled, self.code_length, self.duplicates, answers):
            if code != self._code:
                self._code = code
                return True
        return False

    def random_move(self, rng: np.random.Generator) -> str:
        return _written(self._draw_code(rng))

    def finder(self) -> Find:
        return find_with(find_codes, length=self.code_length)

    def move_pattern(self) -> str | None:
        number = "|".join(map(str, range(self.numbers, 0, -1)))
        return rf"(?:{number})(?: (?:{number})){{{self.code_length - 1}}}"

    def oracle_move(self) -> str:
        return _written(self._code)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Guess the first code that fits all answers."""
        length, most, distinct = _RANGE.findall(observations[0])[0]
        shown = {row for text in observations[1:] for row in _ANSWER.findall(text)}
        answers = [
            (tuple(map(int, guess.split())), int(black), int(white))
            for guess, black, white in shown
        ]
        return _written(
            next(fitting_codes(range(1, int(most) + 1), int(length), not distinct, answers))
        )

    def potential(self) -> float:
        return self._most / self.code_length
