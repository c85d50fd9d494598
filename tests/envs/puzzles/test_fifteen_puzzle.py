"""FifteenPuzzle: the rules, one test per rule, and a planner that keeps its bounds."""

from functools import cache
from itertools import permutations

import numpy as np
import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.envs.puzzles.fifteen_puzzle import (
    FifteenPuzzleEnv,
    is_solvable,
    plan,
    slides,
    write_board,
)
from tests.envs.playing import episodes, start_game


def started(tiles, **kwargs):
    """Return an environment that shows the board ``tiles``."""
    size = round(len(tiles) ** 0.5)
    env = start_game("FifteenPuzzle", size=size, **{"scramble": 2, **kwargs})
    env._start = bytes(tiles)
    env._show(bytes(tiles))
    return env


@cache
def moves_needed(size):
    """The fewest moves from every board of this size, by plain breadth-first search."""
    table = slides(size)
    needed, queue = {table.solved: 0}, [table.solved]
    for board in queue:
        gap = board.index(0)
        for way in table.ways[gap]:
            tiles, source = bytearray(board), table.sources[way][gap]
            tiles[gap], tiles[source] = tiles[source], 0
            if (after := bytes(tiles)) not in needed:
                needed[after] = needed[board] + 1
                queue.append(after)
    return needed


def test_boards_are_solvable_exactly_where_moves_reach_them():
    reached = moves_needed(2)
    assert len(reached) == 12
    for tiles in permutations(range(4)):
        assert is_solvable(bytes(tiles), 2) == (bytes(tiles) in reached)
    rng, reached = np.random.default_rng(0), moves_needed(3)
    assert len(reached) == 181_440
    for _ in range(300):
        board = bytes(rng.permutation(9).tolist())
        assert is_solvable(board, 3) == (board in reached)
    # Sam Loyd's offer of 1,000 dollars for swapping 14 and 15 was a safe one.
    assert not is_solvable(bytes([*range(1, 14), 15, 14, 0]), 4)


@pytest.mark.parametrize(
    "settings",
    [
        {"size": 2, "scramble": None}, {"size": 3, "scramble": None},
        {"scramble": None, "max_turns": 120}, {"size": 2, "scramble": 6}, {"scramble": 40},
        {"size": 6, "scramble": 30},
    ],
)  # fmt: skip
def test_every_start_is_unsolved_and_solvable(settings):
    # Half of the boards of GEM and TextArena cannot be solved at all.
    for env in episodes("FifteenPuzzle", 60, **settings):
        assert env._start != slides(env.size).solved
        assert is_solvable(env._start, env.size)
        assert sorted(env._start) == list(range(env.size**2))


def test_without_scramble_every_arrangement_comes_equally_often():
    counts = {}
    for env in episodes("FifteenPuzzle", 2200, size=2, scramble=None):
        counts[env._start] = counts.get(env._start, 0) + 1
    assert len(counts) == 11
    assert list(counts.values()) == pytest.approx([200] * 11, abs=60)


@pytest.mark.parametrize("scramble", [1, 5, 15])
def test_scramble_bounds_the_moves_needed_and_has_their_parity(scramble):
    needed = []
    for env in episodes("FifteenPuzzle", 40, size=3, scramble=scramble):
        needed.append(moves_needed(3)[env._start])
    assert max(needed) <= scramble
    assert all((scramble - moves) % 2 == 0 for moves in needed)
    assert np.mean(needed) > 0.7 * scramble, "no move takes the one before it back"


def test_the_hardest_boards_are_solved_within_the_turns_required():
    farthest = [board for board, moves in moves_needed(3).items() if moves == 31]
    assert len(farthest) == 2
    for board in farthest:
        assert 31 <= len(plan(board, 3, 40)) <= 40
    for tiles in ([0, 12, 9, 13, 15, 11, 10, 14, 3, 7, 6, 2, 4, 8, 5, 1], [15, *range(14, -1, -1)]):
        if not is_solvable(bytes(tiles), 4):
            tiles[0], tiles[1] = tiles[1], tiles[0]
        assert 40 < len(plan(bytes(tiles), 4, 120)) <= 120
    board = bytes([8, 6, 7, 2, 5, 4, 3, 0, 1])
    assert plan(board, 3, 30) == {}
    assert FifteenPuzzleEnv.solve([f"{write_board(board, 3)}\nTurns left: 3."], []) in (
        "down", "left", "right",
    )  # fmt: skip


def test_four_cells_have_too_few_boards_for_splits():
    assert FifteenPuzzleEnv().has_splits
    with pytest.raises(ConfigError, match="too few instances"):
        FifteenPuzzleEnv(size=2, scramble=None).reset(options={"split": "train"})
