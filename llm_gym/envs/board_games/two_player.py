"""``TwoPlayerEnv``: base class of board games against a scripted opponent.

A position is two bit sets, the player's and the opponent's, one bit per square. A move sets one
bit; a side has won when its bits hold a line. ``TwoPlayerEnv`` lets the two sides take turns. A
subclass says where a move lands, what a line is and which moves are good.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from llm_gym import Outcome, StopReason, TextEnv, end, go_on, lose, reject, setting, win
from llm_gym.reading.moves import find_numbers

Beginner = Literal["player", "opponent", "random"]
_NUMBER = re.compile(
    r"(?:(?:i|play|take|choose|mark|drop|put|place|move|in|into|on|at|column|square|cell) ){0,4}"
    r"\[?([0-9]{1,2})\]?\.?",
    re.IGNORECASE,
)
_STRENGTH = re.compile(r"With probability ([0-9.e-]+) I play")
_ROW = re.compile(r"^(?:[.XO1-9] )+[.XO1-9]$", re.MULTILINE)
_MARK = re.compile(r"You are ([XO])\. Turns left: (\d+)\.")


@lru_cache(maxsize=4096)  # the same moves come again and again
def parse_number(move: str) -> int | None:
    """Return the number of the square or column in ``move``, or None if it is anything else.

    >>> parse_number("5"), parse_number("[5]"), parse_number("Drop in column 5.")
    (5, 5, 5)
    >>> parse_number("5 or 6"), parse_number("not 5"), parse_number("-5")
    (None, None, None)
    """
    found = _NUMBER.fullmatch(move)
    return int(found[1]) if found else None


def read_position(
    observations: Sequence[str], squares: Iterable[int]
) -> tuple[int, int, int, float]:
    """Return the player's squares, the opponent's, the turns left and the opponent's strength."""
    strength = _STRENGTH.findall(observations[0])[0]
    mark, left = _MARK.findall(observations[-1])[0]
    cells = "".join(_ROW.findall(observations[-1])).replace(" ", "")
    taken = {"X": 0, "O": 0}
    for bit, cell in zip(squares, cells, strict=False):  # below the board may be numbers
        if cell in taken:
            taken[cell] |= bit
    foe = "O" if mark == "X" else "X"
    return taken[mark], taken[foe], int(left), float(strength)


class TwoPlayerEnv(TextEnv):
    """A board game for two; the opponent plays a good move with a given probability.

    Squares and columns count from 0 in the code and from 1 in the text.
    """

    find_moves = staticmethod(find_numbers)
    is_markov = True
    has_splits = False
    place: ClassVar[str]
    """Name of a move's target: square or column."""
    places: ClassVar[int]
    """Number of squares or columns."""
    squares: ClassVar[Mapping[int, int]]
    """Bit of each square, row by row from the top, and where its mark is in the text."""
    full: ClassVar[int]
    """The bits of all squares."""
    blank: ClassVar[str]
    """The text of the empty board."""
    line: ClassVar[str]
    """Description of a winning line."""
    full_answer: ClassVar[str]
    """Answer to a move to a full place."""

    opponent: float = setting(0.5, 0, 1, levels=(0, 1))
    begins: Beginner = setting("random")
    max_turns: int

    def check_settings(self) -> None:
        self.check_range("max_turns", (len(self.squares) + 1) // 2, why="which fill the board")

    # --- what a subclass defines -----------------------------------------------------------

    @abstractmethod
    def landing(self, place: int) -> int:
        """Return the bit that a move to ``place`` sets; 0 if ``place`` is full."""

    @abstractmethod
    def free(self) -> Sequence[int]:
        """Return the places that have room."""

    @staticmethod
    @abstractmethod
    def is_won(bits: int) -> bool:
        """Return whether ``bits`` hold a line."""

    @abstractmethod
    def good_moves(self) -> Sequence[int]:
        """Return the moves that a good opponent chooses from."""

    # --- the game ------------------------------------------------------------------------

    def new_game(self, rng: np.random.Generator) -> None:
        self._own = self._foe = 0
        self._board = bytearray(self.blank, "ascii")
        self._first = self.begins == "player" or (self.begins == "random" and rng.random() < 0.5)
        # X moves first, as people play it.
        self._mark, self._foe_mark = "XO" if self._first else "OX"
        if not self._first:
            self._answer(rng)
        self._opening = self._foe

    def example_moves(self) -> Sequence[str]:
        middle = (self.places + 1) // 2
        return [str(middle), "1", str(self.places)]

    def describe(self) -> str:
        return f"{self._board.decode()}\nYou are {self._mark}. Turns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        number = parse_number(move)
        if number is None or not 1 <= number <= self.places:
            return reject(f"Your move must be the number of a {self.place}, 1 to {self.places}.")
        bit = self.landing(number - 1)
        if not bit:
            return reject(self.full_answer.format(number))
        self._own |= bit
        self._draw(bit, self._mark)
        if self.is_won(self._own):
            return win(self._final(f"You play {number} and have {self.line}: you win."))
        if self._own | self._foe == self.full:
            return self._draw_game(f"You play {number}.")
        message = f"You play {number}. I play {self._answer(self.np_random)}"
        if self.is_won(self._foe):
            return lose(self._final(f"{message} and have {self.line}: you lose."))
        if self._own | self._foe == self.full:
            return self._draw_game(f"{message}.")
        return go_on(f"{message}.")

    def _answer(self, rng: np.random.Generator) -> int:
        good = rng.random() < self.opponent
        moves = self.good_moves() if good else self.free()
        place = moves[int(rng.random() * len(moves))]
        bit = self.landing(place)
        self._foe |= bit
        self._draw(bit, self._foe_mark)
        return place + 1

    def _draw(self, bit: int, mark: str) -> None:
        self._board[self.squares[bit]] = ord(mark)

    def _draw_game(self, message: str) -> Outcome:
        text = self._final(f"{message} The board is full: a draw.")
        return end(text, StopReason.DRAWN)

    def _final(self, message: str) -> str:
        return f"{message}\n{self._board.decode()}"

    def instance(self) -> object:
        return (self._first, self._opening)

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Play as near to the middle as possible; on nine squares, centre and corners first."""
        middle = (self.places - 1) / 2
        square = self.places == 9
        order = sorted(self.free(), key=lambda at: (square and at % 2, abs(at - middle)))
        return str(order[0] + 1)

    def legal_moves(self) -> Sequence[str]:
        return [str(place + 1) for place in self.free()]
