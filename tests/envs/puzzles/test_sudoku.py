"""Sudoku: the rules, one test per rule, and puzzles with one solution each."""

import math
import re

import numpy as np
import pytest

from llm_gym.envs.puzzles.sudoku import next_placement
from llm_gym.envs.puzzles.sudoku_puzzles import (
    bank,
    bases,
    draw_puzzle,
    dress,
    layout,
    line_orders,
    solutions,
)
from tests.envs.playing import episodes, start_game

SOLVED = "1234341221434321"
# 1 2 | . .
# . . | 1 2
# ----+----
# 2 . | . .
# . . | 2 1
GIVEN = "12....122.....21"


def started(given=GIVEN, solved=SOLVED, **kwargs):
    """Return an environment with the puzzle ``given``."""
    size = math.isqrt(len(given))
    clues = max(4, sum(map(str.isdigit, given)))
    state = {"_given": given, "_solution": solved, "_grid": bytearray(given, "ascii")}
    return start_game("Sudoku", size=size, clues=clues, **{"max_turns": 20, **state, **kwargs})


def grid(env):
    return env._grid.decode()


def shown(observation):
    rows = re.findall(r"^\d\|(.+)$", observation.split("\n\n")[-1], re.M)
    return re.sub(r"[ |]", "", "".join(rows))


def is_valid(full):
    size = math.isqrt(len(full))
    digits = set("123456789"[:size])
    return all({full[cell] for cell in unit} == digits for unit in layout(size).units)


def test_wrong_digits_are_accepted_without_a_hint_and_can_be_replaced():
    # GEM and TextArena compare each digit with the solution and so tell it to whoever asks.
    env = started()
    obs, _, _, _, info = env.step("1 3 4")  # belongs to the next column
    assert (info["valid_action"], grid(env)[2]) == (True, "4")
    assert obs.startswith("Row 1, column 3 is 4 now.\n   1 2"), "no word about right or wrong"
    assert not env.step("1 4 4")[4]["valid_action"]
    env.step("1 3 3")
    assert grid(env)[2] == "3"
    assert env.step("1 3 3")[0].startswith("Row 1, column 3 is already 3.")
    env.step("1 3 0")
    assert grid(env) == GIVEN
    assert env.step("1 4 4")[4]["valid_action"]


def test_the_bank_holds_every_small_puzzle_and_only_puzzles_with_one_solution():
    counts = {}
    for puzzle in bank():
        clues = re.sub("[a-i]", ".", puzzle)
        solved = puzzle.translate(str.maketrans("abcdefghi", "123456789"))
        assert solutions(clues) == [solved]
        assert is_valid(solved)
        key = (len(puzzle), sum(map(str.isdigit, puzzle)))
        counts[key] = counts.get(key, 0) + 1
    # The literature knows 13, 22 and 1 irreducible puzzles of size 4, up to their guises.
    assert (counts[16, 4], counts[16, 5], counts[16, 6]) == (13, 22, 1)
    assert sum(number for (cells, _), number in counts.items() if cells == 81) == 400
    assert len(set(bank())) == len(bank())


@pytest.mark.parametrize(("size", "clues"), [(4, 4), (4, 10), (9, 24), (9, 31), (9, 50), (9, 80)])
def test_every_puzzle_has_its_clues_and_exactly_one_solution(size, clues):
    for env in episodes("Sudoku", 25, size=size, clues=clues, max_turns=100):
        given = shown(env.describe())
        assert sum(map(str.isdigit, given)) == clues
        assert solutions(given) == [env._solution]


def test_a_symmetry_keeps_a_grid_valid_and_changes_it():
    rng, looks = np.random.default_rng(0), set()
    full = re.sub("[a-i]", lambda open_: str(ord(open_[0]) - 96), bases(9, 24)[0])
    orders = line_orders(9)
    for _ in range(100):
        rows, cols = (orders[int(rng.integers(len(orders)))] for _ in range(2))
        digits = "".join(map(str, rng.permutation(9) + 1))
        other = dress(full, rows, cols, bool(rng.integers(2)), digits)
        assert is_valid(other)
        looks.add(other)
    assert len(looks) == 100


def test_line_orders_are_all_permutations_within_and_of_bands():
    for size, box in ((4, 2), (9, 3)):
        orders = line_orders(size)
        assert len(set(orders)) == len(orders) == math.factorial(box) ** (box + 1)
        for order in orders:
            assert sorted(order) == list(range(size))
            for band in range(0, size, box):
                assert len({line // box for line in order[band : band + box]}) == 1


def test_puzzles_hardly_ever_repeat_and_extra_clues_are_anywhere():
    rng = np.random.default_rng(0)
    assert len({draw_puzzle(rng, 9, 31)[0] for _ in range(300)}) == 300
    assert len({draw_puzzle(rng, 4, 6)[0] for _ in range(300)}) > 290
    counts = np.zeros(81)
    rng = np.random.default_rng(0)
    for _ in range(600):
        counts += [char != "." for char in draw_puzzle(rng, 9, 40)[0]]
    assert counts / 600 == pytest.approx(40 / 81, abs=0.1)


def test_a_blocking_digit_is_erased_first():
    # 2 and 1 are exchanged in the first row: each keeps the other from its place.
    assert next_placement("21.." + "." * 12, SOLVED) == "1 1 0"
    assert next_placement(".1.." + "." * 12, SOLVED) == "1 2 2"
    env = started("1...............")
    # The last cell is the only open one; its row misses the 4 that its column holds.
    env._grid = bytearray(b"123434122143321.")
    assert env._usable(15) == []
    assert env.random_move(np.random.default_rng(0)) in env.legal_moves()


def test_legal_moves_are_exactly_the_usable_ones():
    env = started()
    env.step("1 3 4")
    legal = set(env.legal_moves())
    for row in range(1, 5):
        for col in range(1, 5):
            for digit in range(5):
                saved, move = env.snapshot(), f"{row} {col} {digit}"
                assert env.step(move)[4]["valid_action"] == (move in legal), move
                env.restore(saved)
