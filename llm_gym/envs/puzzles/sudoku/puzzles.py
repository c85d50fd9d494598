"""Puzzles with one solution: a bank of hard ones, each in billions of guises.

Finding a puzzle takes a second, so that is done beforehand. Exchanging digits, rows, columns and
the two directions gives a puzzle that looks new and still has one solution; so does every clue
that is added to it.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from importlib import resources
from itertools import permutations, product
from typing import NamedTuple

import numpy as np

LEAST_CLUES = {4: 4, 9: 24}
"""By size: the clues that the bank has puzzles for."""


@cache
def bank() -> tuple[str, ...]:
    """Return puzzles with one solution each, those with few clues first.

    A clue is a digit; where a cell is open, its solution is a letter, a for 1 and so on.
    ``benchmarks/envs/sudoku_bank.py`` made them.
    """
    text = resources.files("llm_gym.envs.puzzles.sudoku").joinpath("bank.txt").read_text("ascii")
    return tuple(text.split())


@lru_cache(maxsize=64)
def bases(size: int, clues: int) -> tuple[str, ...]:
    """Return the puzzles of the bank that have this size and at most so many clues."""
    return tuple(
        puzzle
        for puzzle in bank()
        if len(puzzle) == size**2 and sum(map(str.isdigit, puzzle)) <= clues
    )


@cache
def line_orders(size: int) -> tuple[tuple[int, ...], ...]:
    """Return the orders of rows, or columns, that keep every grid valid.

    Bands may change places, and lines inside of a band.

    >>> len(line_orders(4)), len(line_orders(9)), line_orders(4)[-1]
    (8, 1296, (3, 2, 1, 0))
    """
    box = math.isqrt(size)
    within = list(permutations(range(box)))
    return tuple(
        tuple(
            box * band + line for band, lines in zip(bands, inside, strict=True) for line in lines
        )
        for bands in within
        for inside in product(within, repeat=box)
    )


class Guise(NamedTuple):
    """What changes the looks of a puzzle and nothing else."""

    rows: tuple[int, ...]
    cols: tuple[int, ...]
    turned: bool
    digits: str
    """The new names of 1, 2, 3 and so on."""


def dress(puzzle: str, guise: Guise) -> str:
    """Return ``puzzle`` in another guise, clues as digits and open cells as letters.

    >>> dress("1bcdc4abba4cdcb1", Guise((1, 0, 2, 3), (0, 1, 2, 3), False, "4321"))
    'b1dc4cbacd1babc4'
    """
    size = math.isqrt(len(puzzle))
    down, right = (1, size) if guise.turned else (size, 1)
    cells = "".join([puzzle[down * row + right * col] for row in guise.rows for col in guise.cols])
    letters = "".join([chr(ord(digit) + 48) for digit in guise.digits])  # 1 is a
    old = "123456789"[:size] + "abcdefghi"[:size]
    return cells.translate(str.maketrans(old, guise.digits + letters))


def draw_puzzle(rng: np.random.Generator, size: int, clues: int) -> tuple[str, str]:
    """Return a random puzzle with exactly ``clues`` clues, and its solution."""
    orders, choice = line_orders(size), bases(size, clues)
    which, over, across, turn = rng.random(4).tolist()
    names = "".join([str(digit + 1) for digit in rng.permutation(size).tolist()])
    rows, cols = orders[int(over * len(orders))], orders[int(across * len(orders))]
    puzzle = dress(choice[int(which * len(choice))], Guise(rows, cols, turn < 0.5, names))
    solved = puzzle.translate(str.maketrans("abcdefghi", "123456789"))
    hidden = [at for at, char in enumerate(puzzle) if char > "9"]
    shown = list(puzzle.translate(str.maketrans("abcdefghi", "." * 9)))
    for at in rng.permutation(len(hidden))[: clues - size**2 + len(hidden)].tolist():
        shown[hidden[at]] = solved[hidden[at]]
    return "".join(shown), solved
