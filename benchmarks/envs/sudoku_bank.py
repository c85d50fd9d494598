r"""Make the bank of sudokus that ``llm_gym/envs/puzzles/sudoku_puzzles.py`` draws from.

The script empties the cells of a full grid in random order, as long as the solution stays unique.
Puzzles with few clues go into the bank. No two puzzles of size 4 are equivalent by a permutation
(for size 9 that does not happen).

    python -m benchmarks.envs.sudoku_bank            # takes minutes
    python -m benchmarks.envs.sudoku_bank --large 5 --out some.txt

The last line of stdout says what was written as JSON.
"""

from __future__ import annotations

import argparse
import json
from itertools import permutations
from pathlib import Path

import numpy as np

from llm_gym.envs.puzzles.sudoku_puzzles import (
    LEAST_CLUES,
    Guise,
    dress,
    layout,
    line_orders,
    solutions,
)

OUT = Path(__file__).parents[2] / "llm_gym" / "envs" / "puzzles" / "sudoku_bank.txt"


def full_grid(size: int, rng: np.random.Generator) -> str:
    """Return a full grid: random boxes on the diagonal, and what then fits."""
    box = round(size**0.5)
    found: list[str] = []
    while not found:
        cells = ["."] * size**2
        for number in range(0, size, box + 1):
            digits = (rng.permutation(size) + 1).tolist()
            for cell, digit in zip(layout(size).units[2 * size + number], digits, strict=True):
                cells[cell] = str(digit)
        found = solutions("".join(cells), limit=1)
    return found[0]


def reduce(grid: str, rng: np.random.Generator) -> str:
    """Return a minimal puzzle of ``grid``, with open cells as letters."""
    cells = list(grid)
    for at in rng.permutation(len(cells)).tolist():
        kept, cells[at] = cells[at], "."
        if len(solutions("".join(cells))) != 1:
            cells[at] = kept
    letters = grid.translate(str.maketrans("123456789", "abcdefghi"))
    return "".join(
        letter if clue == "." else clue for clue, letter in zip(cells, letters, strict=True)
    )


def clues(puzzle: str) -> int:
    return sum(map(str.isdigit, puzzle))


def plainest(puzzle: str) -> str:
    """Return the first of all equivalent puzzles of size 4."""
    orders = line_orders(4)
    return min(
        dress(puzzle, Guise(rows, cols, turned, "".join(digits)))
        for rows in orders
        for cols in orders
        for turned in (False, True)
        for digits in permutations("1234")
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--large", type=int, default=400, help="puzzles of size 9")
    parser.add_argument("--tries", type=int, default=1500, help="tries at size 4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    small = {plainest(reduce(full_grid(4, rng), rng)) for _ in range(args.tries)}
    large: set[str] = set()
    while len(large) < args.large:
        puzzle = reduce(full_grid(9, rng), rng)
        if clues(puzzle) <= LEAST_CLUES[9]:
            large.add(puzzle)
    bank = [*sorted(small, key=lambda one: (clues(one), one))]
    bank += sorted(large, key=lambda one: (clues(one), one))
    args.out.write_text("\n".join(bank) + "\n", "ascii")
    print(json.dumps({"size 4": len(small), "size 9": len(large), "seed": args.seed}))


if __name__ == "__main__":
    main()
