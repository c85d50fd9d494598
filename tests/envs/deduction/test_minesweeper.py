"""Minesweeper: the rules, one test per rule, and a solver whose deductions are proofs."""

from itertools import combinations

import numpy as np
import pytest

from llm_gym.envs.deduction.minesweeper_solver import (
    MINE,
    best_cell,
    can_be_proved,
    chances,
    deduce,
    neighbours,
    number_cells,
    read,
    rings,
    spread,
)
from llm_gym.envs.shared.bit_grid import each
from tests.envs.playing import episodes, final_info, start_game

#    0 1 2 3
# 0  . . . .
# 1  . . . .
# 2  . . . *
# 3  . . * .
CORNER = [11, 14]


def started(mines, *moves, rows=4, cols=4, **kwargs):
    """Return an environment whose mines are in the cells ``mines``, after ``moves``."""
    settings = {"rows": rows, "cols": cols, "mines": len(mines), "max_turns": rows * cols}
    env = start_game("Minesweeper", _numbers=number_cells(rows, cols, mines), **settings | kwargs)
    for move in moves:
        env.step(move)
    return env


def opened():
    """Return an environment in which the upper left corner is revealed, and what it shows."""
    env = started(CORNER)
    return env, field(env.step("reveal 0 0")[0])


def field(observation):
    lines = observation.split("\n\n")[-1].splitlines()
    return [line.partition("|")[2].replace(" ", "") for line in lines if "|" in line]


def marks(observation):
    return "".join(field(observation))


def test_around_a_zero_everything_is_revealed():
    assert opened()[1] == ["0000", "0011", "012.", "01.."]


def test_flags_cost_turns_and_are_removed_by_a_second_flag_or_a_reveal():
    env = started(CORNER)
    assert field(env.step("flag 1 0")[0]) == ["....", "F...", "....", "...."]
    obs, _, _, _, info = env.step("flag 1 0")
    assert field(obs) == ["....", "....", "....", "...."]
    assert (info["turn"], info["valid_action"]) == (2, True)
    env = started(CORNER, "flag 1 1")
    assert field(env.step("reveal 0 0")[0]) == ["0000", "0011", "012.", "01.."]
    assert env._safe_left == 1


@pytest.mark.parametrize("first", range(16))
def test_the_first_cell_and_those_around_it_are_never_mines(first):
    # As full as it may be.
    for env in episodes("Minesweeper", 20, rows=4, cols=4, mines=7, max_turns=16):
        env.step(f"reveal {first // 4} {first % 4}")
        assert env._numbers.count(MINE) == 7
        assert env._numbers[first] == 0


def test_every_cell_outside_the_first_opening_is_a_mine_equally_often():
    hits = np.zeros(25)
    for env in episodes("Minesweeper", 1500, rows=5, cols=5, mines=4, max_turns=25):
        env.step("reveal 2 2")
        hits += np.array(env._numbers) == MINE
    outside = hits[[cell for cell in range(25) if cell // 5 in (0, 4) or cell % 5 in (0, 4)]]
    assert outside.sum() == 4 * 1500
    assert outside == pytest.approx(375, abs=4 * (1500 * 0.25 * 0.75) ** 0.5)


def every_layout(rows, cols, mines, shown):
    """All masks of mines that agree with ``shown``, by trying every one."""
    hidden = [at for at, char in enumerate(shown) if char == "."]
    ring = rings(rows, cols)
    for chosen in combinations(hidden, mines):
        mask = sum(1 << cell for cell in chosen)
        if all(
            char == "." or int(char) == (ring[at] & mask).bit_count()
            for at, char in enumerate(shown)
        ):
            yield mask


def half_played():
    """Yield the text of small boards after a few safe reveals, and all layouts that fit."""
    for seed, env in enumerate(episodes("Minesweeper", 40, rows=4, cols=5, mines=4, max_turns=20)):
        for _ in range(1 + seed % 3):
            if env._safe_left:
                obs, *_ = env.step(env.oracle_action())
        if env._safe_left:
            yield marks(obs), list(every_layout(4, 5, 4, marks(obs)))


def test_what_is_deduced_holds_in_every_layout_that_fits():
    proved = 0
    for shown, layouts in half_played():
        safe, mines = deduce(read(4, 5, 4, shown)[1])
        proved += safe.bit_count()
        assert all(mask & safe == 0 and mask & mines == mines for mask in layouts)
    assert proved > 40, "and it is not silent"


def test_the_chances_are_the_shares_of_the_layouts_that_fit():
    for shown, layouts in half_played():
        hidden, constraints = read(4, 5, 4, shown)
        for cells, danger in chances(constraints[1:], hidden, 4).items():
            for cell in each(cells):
                share = sum(mask >> cell & 1 for mask in layouts) / len(layouts)
                assert danger == pytest.approx(share)


def test_the_solver_reveals_what_is_certain_and_always_answers():
    shown = "." * 90 + ".3" * 15 + "." * 150  # numbers in a row that hardly restrict each other
    _, constraints = read(9, 30, 60, shown)
    assert spread(constraints[1:]) is None
    assert shown[best_cell(9, 30, 60, shown)] == "."
    assert best_cell(4, 4, 2, "00000011012.01..") == 15
    assert best_cell(4, 4, 2, "." * 16) == 10  # the middle first: most is opened there


@pytest.mark.parametrize("settings", [{}, {"rows": 5, "cols": 5, "mines": 5, "max_turns": 25}])
def test_no_guess_boards_can_be_cleared_by_deduction(settings):
    for seed, env in enumerate(episodes("Minesweeper", 40, no_guess=True, **settings)):
        first = (7 * seed) % (env.rows * env.cols)
        env.step(f"reveal {first // env.cols} {first % env.cols}")
        mines = [cell for cell, number in enumerate(env._numbers) if number == MINE]
        assert len(mines) == env.mines
        assert not {first, *neighbours(env.rows, env.cols)[first]} & set(mines)
        assert can_be_proved(env.rows, env.cols, sum(1 << mine for mine in mines), first)
        assert not env._safe_left or final_info(env, "solver")["success"]


def test_a_board_that_needs_a_guess_is_recognised():
    # Behind the wall of 6 and 7, cells 11 and 15 touch the same numbers: either may be the mine.
    assert not can_be_proved(4, 4, 1 << 6 | 1 << 7 | 1 << 15, 12)
    assert can_be_proved(4, 4, sum(1 << mine for mine in CORNER), 0)


def test_the_solver_copes_with_flags_on_the_field():
    env = start_game("Minesweeper", 5, no_guess=True, max_turns=100)
    for cell in range(8):
        env.step(f"flag {cell} {cell}")
    assert final_info(env, "solver")["success"]
