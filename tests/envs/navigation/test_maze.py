"""Maze: the rules, one test per rule, and mazes that follow the settings."""

import numpy as np
import pytest

from llm_gym.envs.navigation.maze import carve, distances, doors, next_step, recall
from llm_gym.envs.shared.bit_grid import DIRECTIONS, each, reach, waves
from tests.envs.playing import episodes, final_info, start_game


def started(*rows, **kwargs):
    """Return an environment that plays in a maze, written without spaces."""
    env = start_game("Maze", **{"size": len(rows) // 2, "max_turns": 20, **kwargs})
    cells = "".join(rows)
    env._floor = sum(1 << at for at, cell in enumerate(cells) if cell != "#")
    env._at = env._start = cells.index("P")
    env._exit, env._been = cells.index("E"), {env._at}
    env._draw_map()
    return env


def shown(observation):
    lines = observation.split("\n\n")[-1].splitlines()
    return [line.replace(" ", "") for line in lines if line[:2] in {"# ", ". ", "P ", "E "}]


SMALL = ("#####", "#P#E#", "#.#.#", "#...#", "#####")


def test_a_wall_stops_and_costs_a_turn():
    env = started(*SMALL)
    obs, _, _, _, info = env.step("right")
    assert obs.startswith("You cannot move right: there is a wall.")
    assert shown(obs)[1] == "#P#E#"
    assert (info["valid_action"], info["turn"]) == (True, 1)


@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_without_loops_there_is_exactly_one_way_between_rooms(size):
    side = 2 * size + 1
    for seed in range(20):
        floor = carve(side, 0.0, np.random.default_rng(seed))
        # A connected graph with one door fewer than rooms is a tree.
        rooms = set(doors(side))
        assert rooms <= set(each(floor))
        assert floor.bit_count() == 2 * len(rooms) - 1
        assert reach(side + 1, floor, side) == floor


@pytest.mark.parametrize(("loops", "extra"), [(0.0, 0), (0.25, 4), (0.5, 8), (1.0, 16)])
def test_loops_opens_that_share_of_the_walls_left(loops, extra):
    # 5 by 5 rooms have 40 walls between them; a tree opens 24 of them.
    for seed in range(10):
        floor = carve(11, loops, np.random.default_rng(seed))
        assert floor.bit_count() == 25 + 24 + extra
        assert reach(12, floor, 11) == floor


def test_no_floor_touches_the_edge_of_the_map():
    for seed in range(20):
        for cell in each(carve(9, 1.0, np.random.default_rng(seed))):
            assert 0 < cell // 9 < 8
            assert 0 < cell % 9 < 8


@pytest.mark.parametrize(
    "settings",
    [{}, {"size": 2, "max_turns": 4}, {"size": 8, "loops": 0.3}, {"size": 15, "max_turns": 40}],
)
def test_the_exit_is_as_far_as_the_turns_allow_and_the_oracle_gets_there(settings):
    for env in episodes("Maze", 30, **settings):
        far = distances(env._floor, env._exit, env._side)[env._start]
        longest = len(waves(env._start, env._floor, env._side)) - 1
        assert far == min(longest, env.max_turns)
        info = final_info(env, "oracle")
        assert info["success"]
        assert info["turn"] == far


def test_view_shows_the_cells_around_the_player_and_walls_outside():
    rows = ["#######", "#P....#", "###.#.#", "#...#.#", "#.###.#", "#E....#", "#######"]
    env = started(*rows, view=2)
    assert shown(env.describe()) == ["#####", "#####", "##P..", "####.", "##..."]
    env.step("right")
    obs, *_ = env.step("right")
    assert shown(obs) == ["#####", "#####", "..P..", "##.#.", "...#."]
    assert "You see the cells up to 2 steps away" in env.reset(seed=1)[0]


def test_the_map_recalled_from_observations_is_right():
    env = start_game("Maze", 3, view=1, loops=1.0)
    for _ in range(30):
        env.step(env.random_action())
    known, (row, col) = recall(env._base_observations)
    at_row, at_col = divmod(env._at, env._side)
    for (r, c), letter in known.items():
        place = (r - row + at_row, c - col + at_col)
        if all(0 <= part < env._side for part in place):
            free = env._floor >> place[0] * env._side + place[1] & 1
            assert bool(free) == (letter != "#")


def test_the_next_step_prefers_a_visible_exit_to_unknown_cells():
    known = {(0, 0): "P", (0, 1): "#", (-1, 0): ".", (1, 0): ".", (0, -1): "#", (2, 0): "."}
    known |= {(3, 0): "E", (1, 1): "#", (1, -1): "#"}
    assert DIRECTIONS[next_step(known, (0, 0))] == "down"
    del known[3, 0]
    assert DIRECTIONS[next_step(known, (0, 0))] == "up", "the unknown next to (-1, 0) is nearer"
