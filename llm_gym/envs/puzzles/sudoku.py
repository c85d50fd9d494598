"""Fill a grid so that no row, column or box holds a digit twice."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from llm_gym import ConfigError, Outcome, TextEnv, go_on, reject, setting, win
from llm_gym.envs.puzzles.sudoku_puzzles import LEAST_CLUES, draw_puzzle, layout, solution
from llm_gym.reading.moves import Named, apart

_ZERO, _OPEN = ord("0"), ord(".")
_MOVE = re.compile(r"(?:place |put )?[\[(]?([0-9])(?:, ?| )([0-9])(?:, ?| )([0-9])[\])]?", re.I)
_ROW = re.compile(r"^\d\|(.+)$", re.MULTILINE)


_DIGIT = re.compile("[0-9]")
_AT = r"[\[(]([0-9]), ?([0-9])[\])]"
_ROW_COL = r"\brow\W{1,3}([0-9])\W{1,3}(?:and\s+)?col(?:umn)?\W{1,3}([0-9])"
_HOLDS = r"\W{1,4}(?:[a-z]+\W{1,3}){0,6}?([0-9])(?!\w)"
_CELL_FIRST = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<![\w.|])(?<!\d[ ,])[\[(]?([0-9])(?:, ?| |-)([0-9])(?:, ?| |-)([0-9])[\])]?"
        r"(?!(?: |, ?|-)[0-9](?! [0-9] [0-9](?! ?[0-9]))|\w|\s?\|)",
        _ROW_COL + _HOLDS,
        _AT + _HOLDS,
        r"\br([0-9]) ?c([0-9])\s?(?:=|:|->|\u2192|is|gets|(?:must|should) be)\s?([0-9])(?!\w)",
    )
]
_DIGIT_FIRST = [
    re.compile(
        r"\b([0-9])\s+(?:[a-z]+\s+){0,2}?(?:in|at|into|on)\s+(?:the\s+)?(?:cell\s+)?(?:in\s+)?"
        rf"{place}(?!\w)",
        re.IGNORECASE,
    )
    for place in (_ROW_COL, _AT)
]


def find_placements(text: str) -> Iterator[Named]:
    """Yield the moves that a sentence names.

    >>> [move for *_, move in find_placements("Put 5 in row 1, column 3, or (2, 1, 9).")]
    ['1 3 5', '2 1 9']
    """
    if _DIGIT.search(text) is None:
        return iter(())
    found = [
        (one.start(), one.end(), f"{one[1]} {one[2]} {one[3]}")
        for pattern in _CELL_FIRST
        for one in pattern.finditer(text)
    ]
    found += [
        (one.start(), one.end(), f"{one[2]} {one[3]} {one[1]}")
        for pattern in _DIGIT_FIRST
        for one in pattern.finditer(text)
    ]
    return apart(found)


def parse_placement(move: str) -> tuple[int, int, int] | None:
    """Return row, column and digit of ``move``, or None.

    >>> parse_placement("1 3 5"), parse_placement("[2, 1, 9]"), parse_placement("place 4 4 0")
    ((1, 3, 5), (2, 1, 9), (4, 4, 0))
    >>> parse_placement("1 3"), parse_placement("1 3 10")
    (None, None)
    """
    found = _MOVE.fullmatch(move)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


@cache
def blank_text(size: int) -> tuple[str, tuple[int, ...]]:
    r"""Return the text of an empty grid, and the index of each cell in it.

    >>> blank_text(4)[0]
    '   1 2   3 4\n1| . . | . .\n2| . . | . .\n   ---------\n3| . . | . .\n4| . . | . .'
    """
    box = math.isqrt(size)
    groups = [" ".join(str(n + 1) for n in range(left, left + box)) for left in range(0, size, box)]
    lines = ["   " + "   ".join(groups)]
    row = "| " + " | ".join([" ".join("." * box)] * box)
    for number in range(1, size + 1):
        lines.append(f"{number}{row}")
        if number % box == 0 and number < size:
            lines.append("   " + "-" * (len(row) - 2))
    text = "\n".join(lines)
    return text, tuple(at for at, char in enumerate(text) if char == ".")


def next_placement(grid: str, solved: str) -> str:
    """Return a move that brings ``grid`` closer to ``solved``, mistakes first.

    >>> next_placement("123.............", "1234341221434321")
    '1 4 4'
    >>> next_placement("124.............", "1234341221434321")  # 4 is wrong and can be replaced
    '1 3 3'
    """
    size = math.isqrt(len(grid))
    wrong = [at for at, char in enumerate(grid) if char not in (".", solved[at])]
    at = wrong[0] if wrong else grid.index(".")
    digit = solved[at]
    if any(grid[peer] == digit for peer in layout(size).peers[at]):
        digit = "0"  # only another mistake can conflict, so erase first
    return f"{at // size + 1} {at % size + 1} {digit}"


class SudokuEnv(TextEnv):
    """Solve a sudoku.

    Description:
        Some cells of a grid hold digits. The player fills the others so that every row, column
        and box holds each digit once. There is exactly one solution. A digit that breaks the rule
        at once is refused; any other wrong digit stays until the player replaces or erases it.

    Actions:
        Row, column and digit, such as ``1 3 5``; rows and columns count from 1. ``[1 3 5]`` and
        ``place 1 3 5`` also work. The digit 0 erases. Changing a clue, writing the same digit again
        and a digit that its row, column or box already holds are unusable.

    Observations:
        The grid, with a dot for an open cell, and the turns left.

    Rewards:
        1 for the full grid, otherwise 0. With ``shaping``, the potential is the share of
        the cells to fill that hold the right digit.

    Episode end:
        Terminates when the grid is full (won) and after ``max_turns`` moves (lost).

    Args:
        size: Rows and columns of the grid, 4 or 9.
        clues: Digits given at the start: from 4 to 15 for size 4, from 24 to 80 for size 9.
        max_turns: Moves allowed, at least the number of cells to fill.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_placements)
    is_markov = True

    size: int = setting(9)
    clues: int = setting(50)
    max_turns: int = setting(50)

    def check_settings(self) -> None:
        if self.size not in LEAST_CLUES:
            raise ConfigError(f"size must be 4 or 9, got {self.size}")
        cells = self.size**2
        self.check_range("clues", LEAST_CLUES[self.size], cells - 1)
        self.check_range("max_turns", cells - self.clues, why="the number of cells to fill")

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        size = 4 if difficulty < 0.25 else 9
        clues = round(7 - 12 * difficulty) if size == 4 else round(56 - 30 * difficulty)
        return {"size": size, "clues": clues, "max_turns": size**2 - clues + size}

    def new_game(self, rng: np.random.Generator) -> None:
        self._given, self._solution = draw_puzzle(rng, self.size, self.clues)
        self._grid = bytearray(self._given, "ascii")
        text, places = blank_text(self.size)
        self._text = bytearray(text, "ascii")
        for place, mark in zip(places, self._grid, strict=True):
            self._text[place] = mark

    def rules_text(self) -> str:
        box = math.isqrt(self.size)
        return (
            f"Fill the grid such that every row, every column and every box of {box} by {box} "
            f"cells holds each digit from 1 to {self.size} once. There is one solution. A dot is "
            "an open cell. Your move is three digits, for the row, the column and what goes into "
            "the cell; rows and columns are counted from 1, as the margins of the grid show. The "
            "digit 0 erases what you have filled in, and you may replace it. The digits given at "
            "the start stay. A digit that its row, column or box already holds is refused."
        )

    def example_moves(self) -> Sequence[str]:
        return ["1 3 2", "4 1 3", "2 2 0"]

    def describe(self) -> str:
        return f"{self._text.decode()}\nTurns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        placement = parse_placement(move)
        if placement is None:
            return reject("Your move must be three digits: row, column and digit.")
        row, col, digit = placement
        size = self.size
        if not 1 <= row <= size or not 1 <= col <= size or digit > size:
            return reject(f"Rows and columns go from 1 to {size}, digits from 0 to {size}.")
        cell = size * (row - 1) + col - 1
        if self._given[cell] != ".":
            return reject(f"Row {row}, column {col} was given and stays.")
        grid, mark = self._grid, _ZERO + digit if digit else _OPEN
        if grid[cell] == mark:
            return reject(f"Row {row}, column {col} is already {digit or 'open'}.")
        if digit:
            for peer in layout(size).peers[cell]:
                if grid[peer] == mark:
                    where = f"row {peer // size + 1}, column {peer % size + 1}"
                    return reject(f"There is a {digit} in {where} already.")
        grid[cell] = self._text[blank_text(size)[1][cell]] = mark
        if _OPEN not in grid:
            return win("The grid is full: solved.")
        return go_on(f"Row {row}, column {col} is {digit or 'open'} now.")

    def reveal(self) -> str:
        size = self.size
        rows = [self._solution[at : at + size] for at in range(0, size * size, size)]
        return f"The rows of the solution are {', '.join(rows)}."

    def instance(self) -> object:
        return self._given

    def _usable(self, cell: int) -> list[int]:
        """Return the digits that can be written into ``cell`` now; 0 erases."""
        here = self._grid[cell]
        taken = {self._grid[peer] for peer in layout(self.size).peers[cell]} | {here}
        digits = [digit for digit in range(1, self.size + 1) if _ZERO + digit not in taken]
        return digits if here == _OPEN else [0, *digits]

    def legal_moves(self) -> Sequence[str]:
        return [
            f"{cell // self.size + 1} {cell % self.size + 1} {digit}"
            for cell, char in enumerate(self._given)
            if char == "."
            for digit in self._usable(cell)
        ]

    def random_move(self, rng: np.random.Generator) -> str:
        """Fill a random open cell; if none can be filled, change a filled one."""
        blanks = [cell for cell, char in enumerate(self._grid) if char == _OPEN]
        for _ in blanks:
            cell = blanks[int(rng.random() * len(blanks))]
            if digits := self._usable(cell):
                digit = digits[int(rng.random() * len(digits))]
                return f"{cell // self.size + 1} {cell % self.size + 1} {digit}"
        return super().random_move(rng)

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Fill the cell that has the fewest possible digits with the first of them."""
        blanks = [cell for cell, char in enumerate(self._grid) if char == _OPEN]
        usable = {cell: digits for cell in blanks if (digits := self._usable(cell))}
        if not usable:
            return self.random_move(rng)
        cell = min(usable, key=lambda cell: len(usable[cell]))
        return f"{cell // self.size + 1} {cell % self.size + 1} {usable[cell][0]}"

    def oracle_move(self) -> str:
        return next_placement(self._grid.decode(), self._solution)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Solve the puzzle from the first observation, then fill it in."""
        given, grid = (
            re.sub("[ |]", "", "".join(_ROW.findall(text)))
            for text in (observations[0], observations[-1])
        )
        return next_placement(grid, solution(given))

    def potential(self) -> float:
        pairs = zip(self._given, self._grid.decode(), self._solution, strict=True)
        right = sum(now == goal for given, now, goal in pairs if given == ".")
        return right / (self.size**2 - self.clues)
