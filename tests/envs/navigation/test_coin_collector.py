"""CoinCollector: the house that is drawn, the rules, and who finds the coin in how many moves."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.envs.navigation.coin_collector import COIN, Find, draw_house
from llm_gym.envs.navigation.text_game.world import OPPOSITE, World, distance
from tests.envs.playing import start_game


def corridor(**kwargs):
    """Return an environment in: den - hall (start) - attic (north) - porch (east, the coin)."""
    env = start_game("CoinCollector", **{"level": 3, "dead_ends": 0, "max_turns": 9, **kwargs})
    world = World(
        exits={
            "hall": {"north": "attic", "west": "den"},
            "den": {"east": "hall"},
            "attic": {"east": "porch", "south": "hall"},
            "porch": {"west": "attic"},
        },
        here="hall",
        place={COIN: "porch"},
    )
    env.begin(world, Find(COIN))
    return env


def houses(*modes):
    return st.tuples(
        st.integers(2, 20), st.integers(0, 2), st.sampled_from(modes), st.integers(0, 10**6)
    )


@given(house=houses("simple", "random"))
def test_every_house_has_the_rooms_and_the_path_of_its_settings(house):
    level, dead_ends, mode, seed = house
    world = draw_house(level, dead_ends, mode, np.random.default_rng(seed))
    assert len(world.exits) == level * (1 + dead_ends)
    # A tree: connected, and one edge fewer than rooms.
    assert sum(len(ways) for ways in world.exits.values()) == 2 * (len(world.exits) - 1)
    for room, ways in world.exits.items():
        assert len(ways) <= 4
        for way, other in ways.items():
            assert world.exits[other][OPPOSITE[way]] == room
        assert len(world.way_to(room)) < len(world.exits)
    assert len(world.way_to(world.place[COIN])) == level - 1
    assert distance(world, Find(COIN)) == level


@given(house=houses("simple"))
def test_in_simple_houses_a_wrong_turn_ends_at_once(house):
    level, dead_ends, mode, seed = house
    world = draw_house(level, dead_ends, mode, np.random.default_rng(seed))
    chain = [world.here, *(room for _, room in world.way_to(world.place[COIN]))]
    for room in set(world.exits) - set(chain):
        assert next(iter(world.exits[room].values())) in chain
        assert len(world.exits[room]) == 1
    for room in chain:
        beside = set(world.exits[room].values()) - set(chain)
        assert len(beside) == dead_ends


def test_random_houses_have_deep_dead_ends():
    deep = 0
    for seed in range(30):
        world = draw_house(8, 2, "random", np.random.default_rng(seed))
        chain = {world.here, *(room for _, room in world.way_to(world.place[COIN]))}
        deep += any(not chain & set(world.exits[room].values()) for room in world.exits)
    assert deep > 25


def test_the_exits_do_not_reveal_the_path():
    firsts = []
    for seed in range(400):
        world = draw_house(4, 1, "simple", np.random.default_rng(seed))
        firsts.append(
            next(iter(world.exits[world.here].values())) == world.way_to(world.place[COIN])[0][1]
        )
    assert np.mean(firsts) == pytest.approx(0.5, abs=0.1)
    ways = [next(iter(draw_house(2, 0, "simple", np.random.default_rng(seed)).exits.values()))
            for seed in range(800)]  # fmt: skip
    counts = [sum(list(way) == [name] for way in ways) for name in OPPOSITE]
    assert min(counts) > 150


@pytest.mark.parametrize(
    ("name", "rooms"), [("CoinCollector", 10), ("CoinCollectorEasy", 5), ("CoinCollectorHard", 30)]
)
def test_presets_have_as_many_rooms_as_textworlds(name, rooms):
    game = gym.make(f"llm_gym/{name}-v0").unwrapped
    game.reset(seed=0)
    assert len(game._world.exits) == rooms
    assert game.max_turns >= game.level + 2 * game.level * game.dead_ends
