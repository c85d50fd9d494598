"""TowerOfHanoi: the rules, one test per rule."""

import pytest

from llm_gym.envs.puzzles.tower_of_hanoi import best_transfer, distances
from tests.envs.playing import episodes, start_game


def started(*rows, **kwargs):
    """Return an environment whose pegs are ``rows``, such as ``"A: 3 2"``."""
    disks = sum(len(row.split()) - 1 for row in rows)
    settings = {"disks": disks, "pegs": len(rows), "max_turns": 200, **kwargs}
    return start_game("TowerOfHanoi", _rows=list(rows), _goal=len(rows) - 1, **settings)


def pegs(observation):
    return observation.split("\n\n")[-1].splitlines()[:-1]


def test_start_and_goal_are_any_two_pegs():
    seen = set()
    for env in episodes("TowerOfHanoi", 60, disks=3, max_turns=10):
        *rows, last = env.describe().splitlines()
        start = next(row[0] for row in rows if row[1:] == ": 3 2 1")
        goal = last.removeprefix("Goal: peg ")[0]
        assert last == f"Goal: peg {goal}. Turns left: 10."
        seen.add((start, goal))
    assert seen == {(a, b) for a in "ABC" for b in "ABC" if a != b}


def test_legal_moves_are_the_usable_ones():
    env = started("A: 3 2", "B:", "C: 1")
    assert set(env.legal_moves()) == {"A B", "C A", "C B"}


@pytest.mark.parametrize(
    ("disks", "pegs", "least"),
    # With three pegs 2**n - 1; with four the Frame-Stewart numbers, proven for these sizes.
    [(1, 3, 1), (3, 3, 7), (5, 3, 31), (9, 3, 511), (3, 4, 5), (5, 4, 13), (6, 4, 17), (5, 5, 11)],
)
def test_distances_are_those_of_the_literature(disks, pegs, least):
    away = distances(disks, pegs)
    assert away[0] == least
    assert away.count(0) == 1
    assert min(away) == 0, "every arrangement can be solved"


def test_the_best_move_is_the_known_one():
    assert best_transfer(["3 2 1", "", ""]) == "A C"  # an odd tower begins towards its goal
    assert best_transfer(["4 3 2 1", "", ""]) == "A B"  # an even one away from it
    assert best_transfer(["", "1", "3 2"]) == "B C"


def test_scattered_disks_begin_anywhere_but_solved():
    starts = set()
    for env in episodes("TowerOfHanoi", 200, disks=2, scattered=True):
        rows = pegs(env.describe())
        assert rows[env._goal][2:] != " 2 1"
        assert all("1 2" not in row for row in rows)
        starts.add((*rows, env._goal))
    assert len(starts) == 3 * (3**2 - 1)
