"""Game2048: the rules, one test per rule, and what its two players promise."""

import numpy as np
import pytest

from llm_gym.envs.puzzles.game_2048 import (
    add_tile,
    best_way,
    pack,
    plan,
    read_board,
    shift,
    shifts,
    slide,
    transpose,
)
from tests.envs.playing import finish, start_game


def grid(board):
    """Return the tiles of a board as an array."""
    exponents = np.array([board >> at & 15 for at in range(0, 64, 4)]).reshape(4, 4)
    return np.where(exponents, 2**exponents, 0)


def started(board, **kwargs):
    """Return an environment that shows ``board``, given as rows of text."""
    board = read_board(board)
    return start_game("Game2048", _board=board, _start=board, **kwargs)


def tiles(board):
    return sorted(grid(board)[grid(board) > 0].tolist())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0, 0, 0, 0], [0, 0, 0, 0]),
        ([0, 0, 0, 1], [1, 0, 0, 0]),
        ([1, 0, 0, 1], [2, 0, 0, 0]),
        ([1, 1, 1, 1], [2, 2, 0, 0]),  # each tile merges once
        ([2, 1, 1, 0], [2, 2, 0, 0]),  # what has merged does not merge again
        ([1, 1, 1, 0], [2, 1, 0, 0]),  # the pair ahead in the direction of the move merges first
        ([1, 2, 1, 2], [1, 2, 1, 2]),
        ([1, 0, 2, 1], [1, 2, 1, 0]),
    ],
)
def test_a_row_slides_and_merges(before, after):
    assert slide(before) == after
    for row in range(4):
        place = 16 * row
        assert shift(pack(before) << place, 2) == pack(after) << place
        assert shift(pack(before[::-1]) << place, 3) == pack(after[::-1]) << place
        assert shift(transpose(pack(before) << place), 0) == transpose(pack(after) << place)


@pytest.mark.parametrize(
    ("way", "rows"),
    [
        (0, ". . . 4\n. . . 8\n. . . .\n. . . ."),
        (1, ". . . .\n. . . .\n. . . 4\n. . . 8"),
        (2, "2 . . .\n2 . . .\n8 . . .\n. . . ."),
        (3, ". . . 2\n. . . 2\n. . . 8\n. . . ."),
    ],
)
def test_every_direction_moves_the_board_its_way(way, rows):
    board = read_board(". . . 2\n. . . 2\n. . . 8\n. . . .")
    assert shift(board, way) == read_board(rows)


def test_shifts_change_the_board_and_keep_the_sum_of_tiles():
    assert dict(shifts(read_board("2 . . .\n4 . . .\n2 . . .\n4 . . ."))).keys() == {3}
    assert not shifts(read_board("2 4 2 4\n4 2 4 2\n2 4 2 4\n4 2 4 2"))
    rng = np.random.default_rng(0)
    for _ in range(100):
        board = pack(rng.integers(0, 3, 16).tolist())
        after = {way: shift(board, way) for way in range(4)}
        assert dict(shifts(board)) == {way: b for way, b in after.items() if b != board}
    rng = np.random.default_rng(1)
    for _ in range(200):
        board = pack(rng.integers(0, 6, 16).tolist())
        for _, after in shifts(board):
            assert grid(after).sum() == grid(board).sum()
        assert (grid(transpose(board)) == grid(board).T).all()


def test_a_full_board_ends_only_where_nothing_can_merge():
    env = started("2 4 2 4\n4 2 4 8\n2 4 8 2\n4 2 8 8")
    env._draws = (0.5,) * 102  # a 2 into the only free cell, below another 2
    _, _, terminated, _, _ = env.step("left")
    assert not terminated
    assert len(tiles(env._board)) == 16
    assert set(env.legal_moves()) == {"up", "down"}
    env = started(". 8 16 8\n4 2 4 16\n2 4 2 4\n4 2 4 2")
    env._draws = (0.5,) * 102
    obs, reward, terminated, _, info = env.step("left")
    assert (reward, terminated, info["stop_reason"]) == (0.0, True, "lost")
    assert obs == "No move is possible any more: you lose."
    env = started("2 . . .\n. . . .\n. . . .\n. . . .")
    obs, _, _, _, info = env.step("left")
    assert obs.startswith("Moving left changes nothing.")
    assert (info["valid_action"], tiles(env._board)) == (False, [2])
    assert set(env.legal_moves()) == {"right", "down"}


def test_new_tiles_are_uniform_and_every_tenth_is_a_four():
    rng, places, fours = np.random.default_rng(0), np.zeros(16), 0
    board = read_board("2 4 8 16\n. . . .\n. . . .\n. . . .")
    for draw in rng.random(6000).tolist():
        flat = grid(add_tile(board, draw)).ravel()
        (at,) = np.flatnonzero(flat[4:])
        places[at + 4] += 1
        fours += int(flat[at + 4] == 4)
    assert places[:4].sum() == 0
    assert places[4:] == pytest.approx(500, abs=4 * 500**0.5)
    assert fours == pytest.approx(600, abs=4 * (6000 * 0.09) ** 0.5)


def test_a_seed_fixes_the_new_tiles_whatever_is_played():
    env = start_game("Game2048", 5)
    draws, name = env._draws, env.instance_id()
    finish(env, "random")
    env.reset(seed=5)
    assert (env._draws, env.instance_id()) == (draws, name)
    env.reset(seed=6)
    assert env.instance_id() != name


def test_the_oracle_still_moves_where_nothing_can_be_won():
    assert plan(0x11, 5, 2, 12, 7) == {}, "ten more tiles cannot make 128"
    env = start_game("Game2048")
    env._draws = env._draws[:12]
    assert env.oracle_move() in env.legal_moves()


def test_the_solver_never_runs_into_a_dead_end_that_it_can_avoid():
    rng, met = np.random.default_rng(0), 0
    for _ in range(1500):
        exponents = rng.integers(1, 6, 16)
        exponents[rng.integers(16)] = 0
        board = pack(exponents.tolist())
        fatal = {}
        for way, after in shifts(board):
            free = int((grid(after) == 0).sum())
            replies = [add_tile(after, 0.1 + 0.9 * (at + 0.5) / free) for at in range(free)]
            fatal[way] = not any(shifts(reply) for reply in replies)
        if len(set(fatal.values())) == 2:
            met += 1
            assert not fatal[best_way(board)]
    assert met > 10
