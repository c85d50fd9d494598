"""Sokoban: the rules, one test per rule, and levels that can be solved and are not trivial."""

from collections import deque

import numpy as np
import pytest

from llm_gym.envs.puzzles.sokoban import SokobanEnv, read_board
from llm_gym.envs.puzzles.sokoban_levels import (
    FAR,
    Level,
    Room,
    draw_level,
    plan,
    push_distances,
    pushes_to_go,
    solution,
)
from llm_gym.envs.shared.bit_grid import DIRECTIONS, steps
from tests.envs.playing import episodes, final_info, start_game


def started(*rows, **kwargs):
    """Return an environment that plays in a room, written without spaces."""
    env = start_game("Sokoban", **{"max_turns": 20, **kwargs})
    position = read_board("".join(" ".join(row) + "\n" for row in rows))
    env._room, env._boxes, env._player = position
    env._level, env.size = Level(*position, ()), len(rows)
    return env


def shown(observation):
    lines = observation.split("\n\n")[-1].splitlines()
    return [line.replace(" ", "") for line in lines if line.startswith("#")]


def fewest_moves(room, boxes, player):
    """Breadth-first search over single moves, without any of the planner's ideas."""
    start = (boxes, player)
    away, queue = {start: 0}, deque([start])
    while queue:
        boxes, at = state = queue.popleft()
        if boxes == room.goals:
            return away[state]
        for step in steps(room.size):
            to, after = at + step, boxes
            if boxes >> to & 1:
                after = boxes ^ 1 << to | 1 << to + step
                if after == boxes ^ 1 << to or not room.floor >> to + step & 1:
                    continue
            if room.floor >> to & 1 and (after, to) not in away:
                away[after, to] = away[state] + 1
                queue.append((after, to))
    return None


def test_goals_show_under_players_and_boxes_can_leave_them():
    env = started("######", "#PO.X#", "######", "######", "######", "######")
    assert shown(env.step("right")[0])[1] == "#.S.X#"
    assert shown(env.step("right")[0])[1] == "#.OPX#"
    env = started("######", "#P*.O#", "#.XO.#", "######", "######", "######")
    assert shown(env.step("right")[0])[1] == "#.SXO#"
    _, _, terminated, *_ = env.step("right")
    assert not terminated, "one of the two boxes is still off"


LEVELS = [
    {"size": 5, "boxes": 1, "min_pushes": 1, "max_turns": 5},
    {"size": 5, "boxes": 5, "min_pushes": 2, "max_turns": 10},
    {"size": 6, "boxes": 1, "min_pushes": 2, "max_turns": 10},
    {"size": 6, "boxes": 2, "min_pushes": 4, "max_turns": 20},
    {"size": 6, "boxes": 3, "min_pushes": 3, "max_turns": 30},
    {"size": 8, "boxes": 4, "min_pushes": 6, "max_turns": 50},
    {"size": 10, "boxes": 1, "min_pushes": 6, "max_turns": 30},
]


@pytest.mark.parametrize("settings", LEVELS)
def test_every_level_is_solved_by_its_pulls_in_reverse(settings):
    env = SokobanEnv(**settings)
    for seed in range(25):
        env.reset(seed=seed)
        way_back = solution(env._level)
        assert len(way_back) <= settings["max_turns"]
        for way in way_back:
            *_, info = env.step(DIRECTIONS[way])
        assert info["success"]
        env.reset(seed=seed)
        assert final_info(env, "oracle")["turn"] <= len(way_back)


@pytest.mark.parametrize("settings", LEVELS)
def test_every_level_has_its_boxes_goals_size_and_pushes(settings):
    for env in episodes("Sokoban", 25, **settings):
        room, boxes, player = read_board("\n".join(shown(env.describe())) + "\n")
        assert room.size == settings["size"]
        assert boxes.bit_count() == room.goals.bit_count() == settings["boxes"]
        assert room.floor >> player & 1
        assert not boxes >> player & 1
        assert settings["min_pushes"] <= pushes_to_go(room, boxes) < FAR


def test_solutions_are_at_least_min_pushes_long():
    for seed in range(40):
        room, boxes, player, _ = draw_level(6, 2, 4, 20, np.random.default_rng(seed))
        fewest = fewest_moves(room, boxes, player)
        assert 4 <= fewest <= 20
        assert fewest <= len(plan(room, boxes, player)) <= 2 * fewest


def test_push_distances_know_corners_and_walls():
    # ######
    # #O...#   a box in the left column or the top row can still reach the goal in the corner;
    # #....#   one in another corner, or at the right or lower wall, cannot
    # #....#
    # ######
    room = Room(6, sum(0b1111 << 6 * row + 1 for row in (1, 2, 3)), 1 << 7)
    away = push_distances(room)
    assert [away[7:11], away[13:17], away[19:23]] == [
        [0, 1, 2, FAR],
        [1, 2, 3, FAR],
        [FAR, FAR, FAR, FAR],
    ]


def test_the_planner_finds_nothing_where_a_box_is_stuck():
    env = started("######", "#X..P#", "#..O.#", "######", "######", "######")
    assert plan(env._room, env._boxes, env._player) is None
    assert env.step(env.oracle_action())[4]["valid_action"], "and the oracle still moves"


def test_the_oracle_finds_another_way_after_a_detour():
    won = 0
    for env in episodes("Sokoban", 30, size=6, boxes=2, min_pushes=4, max_turns=60):
        env.step("???")
        for move in ("up", "down", "left", "right"):
            env.step(move)
        if plan(env._room, env._boxes, env._player) is None:
            continue  # the detour has pushed a box into a corner
        assert final_info(env, "oracle")["success"]
        won += 1
    assert won >= 10


def test_the_solver_plans_again_after_leaving_its_plan():
    env = started("######", "#..P.#", "#..X.#", "#..O.#", "#....#", "######")
    env._base_observations[0] = env._base_observations[0].split("\n\n")[0] + f"\n\n{env.describe()}"
    assert env.solver_action() == "down"
    env.step("left")
    assert env.solver_action() == "right"
    env.step("???")
    assert env.solver_action() == "right"


def test_a_box_in_a_dead_end_has_potential_zero():
    rows = ("#######", "#.X.PO#", "#.....#", "#.....#", "#######", "#######", "#######")
    env = started(*rows, shaping=True)
    env._base_phi, env._base_phi_start = 0.0, env.potential()
    terms = []
    for move in ("left", "left"):
        terms.append(env.step(move)[4]["reward_terms"]["shaping"])
    assert env.potential() == 0.0, "in the corner"
    assert min(terms) >= -0.5
