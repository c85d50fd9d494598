"""FrozenLake: the rules, one test per rule."""

from functools import cache

import numpy as np
import pytest

from llm_gym.envs.navigation.frozen_lake import FrozenLakeEnv, neighbours, win_chances
from tests.envs.playing import episodes, start_game


def started(lake, **kwargs):
    """Return an environment that plays on ``lake``, written row by row."""
    rows = lake.split()
    settings = {"size": len(rows), "max_turns": 20, **kwargs}
    return start_game("FrozenLake", _lake="".join(rows), **settings)


@pytest.mark.parametrize(
    ("move", "at"),
    [("up", 1), ("right", 5), ("down", 7), ("left", 3), ("go North", 1), ("EAST", 5)],
)
def test_every_direction_leads_where_its_name_says(move, at):
    env = started("... ... ..G")
    env._at = 4
    env.step(move)
    assert env._at == at


def test_the_number_of_holes_follows_the_settings():
    large = episodes("FrozenLake", 30, size=20, hole_probability=0.1, max_turns=60)
    holes = [env._lake.count("H") for env in large]
    assert np.mean(holes) == pytest.approx(0.1 * 398, rel=0.1)
    for env in episodes("FrozenLake", 30, size=4, holes=3):
        assert env._lake.count("H") == 3


def test_with_slip_a_move_ends_to_either_side_as_often_as_stated():
    env, ends = started("... ... ..G", slip=0.5), []
    for _ in range(2000):
        env._at, env._base_turn = 4, 0
        env.step("up")
        ends.append(env._at)
    share = {at: ends.count(at) / 2000 for at in set(ends)}
    assert share.keys() == {1, 3, 5}
    assert share[1] == pytest.approx(0.5, abs=0.05)
    assert share[3] == pytest.approx(0.25, abs=0.05)


def expectimax(lake, slip, at, left):
    """The chance of best play, by plain recursion instead of a table."""
    around = neighbours(round(len(lake) ** 0.5))

    @cache
    def value(at, left):
        if lake[at] != "." or left == 0:
            return float(lake[at] == "G")
        ends = [value(way[at], left - 1) for way in around]
        return max(
            (1 - slip) * ends[way] + slip / 2 * (ends[way - 1] + ends[(way + 1) % 4])
            for way in range(4)
        )

    return value(at, left)


@pytest.mark.parametrize("slip", [0.0, 0.2, 2 / 3, 1.0])
def test_the_oracle_value_is_the_exact_chance_of_best_play(slip):
    for env in episodes("FrozenLake", 10, size=3, hole_probability=0.3, slip=slip, max_turns=9):
        for left in (1, 4, 9):
            for at, cell in enumerate(env._lake):
                if cell == ".":
                    table = win_chances(env._lake, slip, 9)
                    assert table[left, at] == pytest.approx(expectimax(env._lake, slip, at, left))


def test_the_map_is_the_instance_whatever_the_ice():
    firm, slippery = FrozenLakeEnv(), FrozenLakeEnv(slip=0.5, max_turns=30)
    firm.reset(seed=2)
    slippery.reset(seed=2)
    assert firm.instance_id() == slippery.instance_id()
