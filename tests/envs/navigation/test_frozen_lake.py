"""FrozenLake: the rules, one test per rule."""

import pickle
from functools import cache

import numpy as np
import pytest

from llm_gym.envs.navigation.frozen_lake import (
    FrozenLakeEnv,
    distances,
    draw_map,
    neighbours,
    parse_direction,
    win_chances,
)
from llm_gym.errors import ConfigError
from tests.envs.playing import final_info, solver_and_oracle_moves


def on(lake, **kwargs):
    """Return an environment that plays on ``lake``, written row by row."""
    rows = lake.split()
    env = FrozenLakeEnv(size=len(rows), **{"max_turns": 20, **kwargs})
    env.reset(seed=0)
    env._lake = "".join(rows)
    env._map = draw_map(env._lake, env.size)
    return env


def shown(observation):
    return observation.split("\n\n")[-1].splitlines()


def test_the_goal_wins():
    env = on(".. .G")
    env.step("right")
    _, reward, terminated, truncated, info = env.step("down")
    assert (reward, terminated, truncated, info["stop_reason"]) == (1.0, True, False, "won")


def test_a_hole_loses():
    obs, reward, terminated, _, info = on(".H .G").step("right")
    assert (reward, terminated, info["stop_reason"]) == (0.0, True, "lost")
    assert obs == "You move right and fall into a hole."


def test_the_edge_leaves_the_player_in_place_and_costs_a_turn():
    env = on(".. .G", max_turns=5)
    obs, _, terminated, _, info = env.step("up")
    assert shown(obs) == ["You move up, but the edge stops you.", "P .", ". G", "Turns left: 4."]
    assert (terminated, info["valid_action"]) == (False, True)


def test_running_out_of_turns_loses_and_does_not_truncate():
    env = on(".. .G", max_turns=2)
    env.step("up")
    _, reward, terminated, truncated, info = env.step("left")
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, True, False, "lost")


@pytest.mark.parametrize(
    ("move", "at"),
    [("up", 1), ("right", 5), ("down", 7), ("left", 3), ("go North", 1), ("EAST", 5)],
)
def test_every_direction_leads_where_its_name_says(move, at):
    env = on("... ... ..G")
    env._at = 4
    env.step(move)
    assert env._at == at


@pytest.mark.parametrize("move", ["", "d", "go", "up or so", "not up", "up down", "ＵＰ", "1"])
def test_anything_else_is_answered_and_moves_nobody(move):
    assert parse_direction(move) is None
    env = on(".. .G")
    assert not env.step(move)[4]["valid_action"]
    assert env._at == 0


def test_the_map_shows_player_ice_holes_and_goal():
    env = on(".H. ... ..G")
    obs, *_ = env.step("down")
    assert shown(obs)[1:4] == [". H .", "P . .", ". . G"]


def test_rules_state_the_slip_the_limit_and_the_edge():
    rules, _ = FrozenLakeEnv(slip=0.25, max_turns=33).reset(seed=0)
    assert "With probability 0.25 the ice carries you to one of the two sides" in rules
    assert "You have 33 turns." in rules
    assert "at the edge you stay where you are" in rules
    assert "the ice carries" not in FrozenLakeEnv().reset(seed=0)[0]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"hole_probability": 0.9},
        {"size": 8, "hole_probability": 0.6, "max_turns": 14},
        {"size": 8, "holes": 49, "max_turns": 14},
        {"size": 2, "hole_probability": 0.5, "max_turns": 2},
    ],
)
def test_every_lake_can_be_crossed_within_the_turns(settings):
    env = FrozenLakeEnv(**settings)
    for seed in range(50):
        env.reset(seed=seed)
        assert distances(env._lake)[0] <= env.max_turns
        assert env.oracle_value() == 1.0
        assert final_info(env, "oracle")["success"]


def test_size_sets_rows_and_columns():
    env = FrozenLakeEnv(size=7)
    obs, _ = env.reset(seed=0)
    assert [len(row.split()) for row in shown(obs)[:-1]] == [7] * 7


def test_hole_probability_is_the_share_of_holes_on_lakes_with_room():
    env = FrozenLakeEnv(size=20, hole_probability=0.1, max_turns=60)
    holes = []
    for seed in range(30):
        env.reset(seed=seed)
        holes.append(env._lake.count("H"))
    assert np.mean(holes) == pytest.approx(0.1 * 398, rel=0.1)


def test_holes_gives_exactly_that_many():
    env = FrozenLakeEnv(size=4, holes=3)
    for seed in range(30):
        env.reset(seed=seed)
        assert env._lake.count("H") == 3


def test_without_slip_nothing_is_left_to_chance():
    env = on("... ... ..G")
    before = env.np_random.bit_generator.state
    env.step("right")
    assert env.np_random.bit_generator.state == before


def test_with_slip_a_move_ends_to_either_side_as_often_as_stated():
    env, ends = on("... ... ..G", slip=0.5), []
    for _ in range(2000):
        env._at, env._base_turn = 4, 0
        env.step("up")
        ends.append(env._at)
    share = {at: ends.count(at) / 2000 for at in set(ends)}
    assert share.keys() == {1, 3, 5}
    assert share[1] == pytest.approx(0.5, abs=0.05)
    assert share[3] == pytest.approx(0.25, abs=0.05)


def test_certain_slip_never_goes_ahead():
    env = on("... ... ..G", slip=1.0)
    for _ in range(30):
        env._at, env._base_turn = 4, 0
        assert "slip" in env.step("up")[0]
        assert env._at in {3, 5}


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
    env = FrozenLakeEnv(size=3, hole_probability=0.3, slip=slip, max_turns=9)
    for seed in range(10):
        env.reset(seed=seed)
        for left in (1, 4, 9):
            for at, cell in enumerate(env._lake):
                if cell == ".":
                    table = win_chances(env._lake, slip, 9)
                    assert table[left, at] == pytest.approx(expectimax(env._lake, slip, at, left))


def test_the_oracle_wins_as_often_as_it_promises():
    env = FrozenLakeEnv(slip=0.3)
    wins = promised = 0.0
    for seed in range(300):
        env.reset(seed=seed)
        promised += env.oracle_value()
        wins += final_info(env, "oracle")["success"]
    assert promised < 290
    assert wins == pytest.approx(promised, abs=4 * (promised * (1 - promised / 300)) ** 0.5)


def test_the_oracle_takes_a_shortest_way_on_firm_ice():
    env = FrozenLakeEnv(size=8, max_turns=60)
    for seed in range(20):
        env.reset(seed=seed)
        assert final_info(env, "oracle")["turn"] == distances(env._lake)[0]


@pytest.mark.parametrize("settings", [{}, {"slip": 0.4}, {"size": 7, "action_format": "json"}])
def test_the_solver_plays_the_oracles_game_from_the_text_alone(settings):
    solver, oracle = solver_and_oracle_moves(FrozenLakeEnv(**settings), seeds=10)
    assert solver == oracle
    assert len(solver) > 10


def test_the_oracle_answers_alike_after_restore_and_pickle():
    env = FrozenLakeEnv(slip=0.4)
    env.reset(seed=3)
    expected, saved = (env.oracle_value(), env.oracle_action()), env.snapshot()
    final_info(env, "random")
    env.reset(seed=4)
    env.restore(saved)
    assert (env.oracle_value(), env.oracle_action()) == expected
    copy = pickle.loads(pickle.dumps(env))
    assert (copy.oracle_value(), copy.oracle_action()) == expected
    assert copy.step("right") == env.step("right")


def test_the_potential_grows_towards_the_goal():
    env = on("..H H.. H.G")
    potentials = []
    for move in ("right", "down", "down"):
        potentials.append(env.potential())
        env.step(move)
    assert potentials == [0.5, 0.625, 0.75]


def test_shaping_adds_the_same_sum_to_every_episode_on_a_lake():
    env = FrozenLakeEnv(shaping=True)
    for player in ("random", "oracle"):
        env.reset(seed=1)
        total, done = 0.0, False
        while not done:
            _, _, done, _, info = env.step(getattr(env, f"{player}_action")())
            total += info["reward_terms"]["shaping"]
        assert total == pytest.approx(0.0), player


def test_the_map_is_the_instance_whatever_the_ice():
    firm, slippery = FrozenLakeEnv(), FrozenLakeEnv(slip=0.5, max_turns=30)
    firm.reset(seed=2)
    slippery.reset(seed=2)
    assert firm.instance_id() == slippery.instance_id()


def test_no_lake_is_in_two_splits():
    env, seen = FrozenLakeEnv(), {}
    for split in ("train", "dev", "test"):
        for seed in range(40):
            env.reset(seed=seed, options={"split": split})
            assert seen.setdefault(env._lake, split) == split


def test_difficulty_makes_lakes_larger_and_fuller():
    easy, hard = FrozenLakeEnv(difficulty=0.0), FrozenLakeEnv(difficulty=1.0)
    assert (easy.size, hard.size) == (4, 10)
    assert easy.hole_probability < hard.hole_probability
    with pytest.raises(ConfigError, match="difficulty sets"):
        FrozenLakeEnv(difficulty=0.5, holes=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 1}, "size must be from 2 to 30, got 1"),
        ({"hole_probability": 1.0}, r"hole_probability must be in \[0, 1\), got 1.0"),
        ({"holes": 10}, "holes must be from 0 to 9 for this size, got 10"),
        ({"slip": 1.5}, r"slip must be in \[0, 1\], got 1.5"),
        ({"max_turns": 5}, "max_turns must be at least 6, got 5"),
    ],
)
def test_bad_settings_are_named_with_their_value(settings, message):
    with pytest.raises(ConfigError, match=message):
        FrozenLakeEnv(**settings)
