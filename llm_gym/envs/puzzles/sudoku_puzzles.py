"""Sudoku puzzles with one solution: a bank of hard puzzles and random transformations of them.

Finding a puzzle takes a second, so the bank is made beforehand. Permuting digits, rows and columns,
transposing the grid, and adding clues give a puzzle that looks new and still has one solution.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import islice, permutations, product
from typing import NamedTuple

import numpy as np


class Layout(NamedTuple):
    """Which cells of a grid must differ."""

    units: tuple[tuple[int, ...], ...]
    """The cells of each row, then each column, then each box."""
    peers: tuple[tuple[int, ...], ...]
    """For each cell, the others of its row, column and box."""


@lru_cache(maxsize=4)
def layout(size: int) -> Layout:
    """Return which cells must differ in a grid of ``size`` rows and columns.

    >>> layout(4).units[8], layout(4).peers[0]
    ((0, 1, 4, 5), (1, 2, 3, 4, 5, 8, 12))
    """
    box, side = math.isqrt(size), range(size)
    rows = [tuple(size * row + col for col in side) for row in side]
    columns = [tuple(size * row + col for row in side) for col in side]
    boxes = [
        tuple(size * (top + row) + left + col for row in range(box) for col in range(box))
        for top in range(0, size, box)
        for left in range(0, size, box)
    ]
    units = (*rows, *columns, *boxes)
    return Layout(
        units,
        tuple(
            tuple(sorted({at for unit in units if cell in unit for at in unit} - {cell}))
            for cell in range(size * size)
        ),
    )


def solutions(grid: str, limit: int = 2) -> list[str]:
    """Return up to ``limit`` solutions of ``grid``; two show that it is not unique.

    >>> solutions("12..34...1..4...")
    ['1234341221434321', '1234342121434312']
    >>> solutions("11.............."), len(solutions("." * 16, limit=1000))
    ([], 288)
    """
    size = math.isqrt(len(grid))
    everything, open_cells = (1 << size) - 1, [(1 << size) - 1] * len(grid)
    for cell, char in enumerate(grid):
        if char.isdigit() and not _set(open_cells, size, cell, 1 << int(char) - 1):
            return []
    return list(islice(_search(open_cells, size, everything), limit))


@lru_cache(maxsize=64)
def solution(grid: str) -> str:
    """Return the first solution of ``grid``, which must have one."""
    return solutions(grid, limit=1)[0]


def _set(cells: list[int], size: int, cell: int, digit: int) -> bool:
    """Put ``digit`` into ``cell`` and propagate; False if a cell has no possible digit left."""
    if not cells[cell] & digit:
        return False
    cells[cell] = digit
    peers, settled = layout(size).peers, [cell]
    for at in settled:  # grows while it is read
        for peer in peers[at]:
            if cells[peer] & cells[at]:
                cells[peer] ^= cells[at]
                if not cells[peer]:
                    return False
                if cells[peer].bit_count() == 1:
                    settled.append(peer)
    return True


def _place_singles(cells: list[int], size: int, everything: int) -> bool:
    """Set every digit that fits only one cell of a unit; False if a digit fits no cell."""
    progress = True
    while progress:
        progress = False
        for unit in layout(size).units:
            once = more = 0
            for cell in unit:
                more |= once & cells[cell]
                once |= cells[cell]
            if once != everything:
                return False
            once &= ~more
            for cell in unit:
                if (digit := cells[cell] & once) and digit != cells[cell]:
                    if not _set(cells, size, cell, digit & -digit):
                        return False
                    progress = True
    return True


def _search(cells: list[int], size: int, everything: int) -> Iterator[str]:
    if not _place_singles(cells, size, everything):
        return
    left = [(mask.bit_count(), at) for at, mask in enumerate(cells) if mask.bit_count() > 1]
    if not left:
        yield "".join([str(mask.bit_length()) for mask in cells])
        return
    _, cell = min(left)
    for digit in range(size):
        if cells[cell] >> digit & 1:
            copy = cells.copy()
            if _set(copy, size, cell, 1 << digit):
                yield from _search(copy, size, everything)


LEAST_CLUES = {4: 4, 9: 24}
"""By size: the fewest clues of the puzzles in the bank."""


@cache
def bank() -> tuple[str, ...]:
    """Return puzzles with one solution each, those with few clues first.

    A clue is a digit. An open cell is a letter that gives its solution: a is 1, b is 2 and so on.
    ``benchmarks/envs/sudoku_bank.py`` made the bank.
    """
    text = resources.files("llm_gym.envs.puzzles").joinpath("sudoku_bank.txt").read_text("ascii")
    return tuple(text.split())


@lru_cache(maxsize=64)
def bases(size: int, clues: int) -> tuple[str, ...]:
    """Return the puzzles of the bank with this size and at most ``clues`` clues."""
    return tuple(
        puzzle
        for puzzle in bank()
        if len(puzzle) == size**2 and sum(map(str.isdigit, puzzle)) <= clues
    )


@cache
def line_orders(size: int) -> tuple[tuple[int, ...], ...]:
    """Return the orders of rows, or columns, that keep every grid valid.

    Bands may change places, and so may lines inside a band.

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


def dress(puzzle: str, rows: Sequence[int], cols: Sequence[int], turned: bool, digits: str) -> str:
    """Return ``puzzle`` with another look: its lines in this order, ``digits`` for 1, 2, 3, ...

    >>> dress("1bcdc4abba4cdcb1", (1, 0, 2, 3), (0, 1, 2, 3), turned=False, digits="4321")
    'b1dc4cbacd1babc4'
    """
    size = math.isqrt(len(puzzle))
    down, right = (1, size) if turned else (size, 1)
    cells = "".join([puzzle[down * row + right * col] for row in rows for col in cols])
    letters = "".join([chr(ord(digit) + 48) for digit in digits])  # "1" becomes "a"
    old = "123456789"[:size] + "abcdefghi"[:size]
    return cells.translate(str.maketrans(old, digits + letters))


def draw_puzzle(rng: np.random.Generator, size: int, clues: int) -> tuple[str, str]:
    """Return a random puzzle with exactly ``clues`` clues, and its solution."""
    orders, choice = line_orders(size), bases(size, clues)
    which, over, across, turn = rng.random(4).tolist()
    names = "".join([str(digit + 1) for digit in rng.permutation(size).tolist()])
    rows, cols = orders[int(over * len(orders))], orders[int(across * len(orders))]
    puzzle = dress(choice[int(which * len(choice))], rows, cols, turn < 0.5, names)
    solved = puzzle.translate(str.maketrans("abcdefghi", "123456789"))
    hidden = [at for at, char in enumerate(puzzle) if char > "9"]
    shown = list(puzzle.translate(str.maketrans("abcdefghi", "." * 9)))
    for at in rng.permutation(len(hidden))[: clues - size**2 + len(hidden)].tolist():
        shown[hidden[at]] = solved[hidden[at]]
    return "".join(shown), solved
