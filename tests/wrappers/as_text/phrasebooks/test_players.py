"""Gymnasium's own games in words: the text gives the state, and the oracle plays well."""

import math
import re
import statistics

import gymnasium as gym
import numpy as np
import pytest

from llm_gym.wrappers.as_text import AsText, make_text

TAXI = max(env_id for env_id in gym.registry if env_id.startswith("Taxi-v"))
CLIFF = max(env_id for env_id in gym.registry if env_id.startswith("CliffWalking-v"))


def numbers(text):
    """Return the numbers of the line that ``text`` ends with."""
    return [float(one) for one in re.findall(r"-?\d[\d.]*(?:e[-+]?\d+)?", text.splitlines()[-1])]


def acrobot_state(game):
    first, second, *speeds = game.state
    return [first, second, *speeds, -math.cos(first) - math.cos(first + second)]


def blackjack_state(game):
    return [sum(game.player) + 10 * game._get_obs()[2], *game.dealer[:1]]


def taxi_state(game):
    row, column, passenger, goal = game.decode(game.s)
    stops = [*game.locs, None]
    return [row, column, *(stops[passenger] or ()), *stops[goal]]


@pytest.mark.parametrize(
    ("env_id", "state"),
    [
        ("CartPole-v1", lambda game: game.state),
        ("MountainCar-v0", lambda game: game.state),
        ("Acrobot-v1", acrobot_state),
        (TAXI, taxi_state),
        ("Blackjack-v1", blackjack_state),
    ],
)
def test_the_text_holds_the_numbers_of_the_state(env_id, state):
    env = make_text(env_id, rules="system")
    for seed in range(20):
        text, _ = env.reset(seed=seed)
        for _ in range(30):
            line = text.partition("\nLegal moves")[0].replace("an ace", "1")
            assert np.allclose(numbers(line), state(env.unwrapped), rtol=1e-3, atol=1e-3), line
            text, _, terminated, truncated, info = env.step(env.random_action())
            assert info["valid_action"]
            if terminated or truncated:
                break


def test_the_text_of_the_lander_names_its_legs():
    pytest.importorskip("Box2D")
    words = AsText(gym.make("LunarLander-v3")).book
    assert words.describe(np.array([0.5, 1.25, -1, 0, 0.125, -2, 1, 0]), {}) == (
        "Sideways 0.5, height 1.25, sideways speed -1, vertical speed 0, tilt 0.125, "
        "tilt speed -2, left leg down, right leg up"
    )


WALKED = {
    CLIFF: ". . . . . . . . . . . .\n. . . . . . . . . . . .\n. P . . . . . . . . . .\n"
    ". C C C C C C C C C C G",
    "FrozenLake-v1": ". . . .\n. P . H\n. . . H\nH . . G\nYou fall into a hole.",
}


@pytest.mark.parametrize(
    ("env_id", "settings", "moves"),
    [(CLIFF, {}, ["up", "right"]), ("FrozenLake-v1", {"is_slippery": False}, ["right", "down"])],
)
def test_a_map_shows_where_the_player_is(env_id, settings, moves):
    env = make_text(env_id, rules="system", **settings)
    env.reset(seed=0)
    assert [env.step(move)[0] for move in moves][-1] == WALKED[env_id]


@pytest.mark.parametrize("slippery", [True, False])
def test_the_rules_mention_slippery_ground(slippery):
    rules = make_text("FrozenLake-v1", rules="system", is_slippery=slippery).system_prompt
    assert ("With probability 0.667 you slip" in rules) == slippery


def test_the_taxi_is_on_its_map():
    env = make_text(TAXI, rules="system")
    for seed in range(20):
        rows = env.reset(seed=seed)[0].splitlines()
        row, column, *_ = env.unwrapped.decode(env.unwrapped.s)
        assert rows[row + 1][2 * column + 1] == "T"


def play(env_id, player, episodes, settings):
    """Return the mean return and the share of successes over the seeds 0, 1, ..."""
    env = make_text(env_id, **settings)
    returns, wins = [], 0
    for seed in range(episodes):
        env.reset(seed=seed)
        act, total, done = env.get_wrapper_attr(player), 0.0, False
        while not done:
            _, reward, terminated, truncated, info = env.step(act())
            assert info["valid_action"]
            total += float(reward)
            done = terminated or truncated
        returns.append(total)
        wins += info.get("success", False)
    return statistics.mean(returns), wins / episodes


FIRM = {"is_slippery": False}
# The best player of the 4x4 lake reaches the goal within 100 moves in 74 of 100 episodes.
CROSSED = [0.74 - 4 * (0.74 * 0.26 / 100) ** 0.5] * 2


@pytest.mark.parametrize(
    ("env_id", "episodes", "settings", "earned", "won", "chance"),
    [
        ("FrozenLake-v1", 2, FIRM, 1.0, 1.0, None),
        ("FrozenLake-v1", 100, {}, *CROSSED, (100, 0.1)),
        (CLIFF, 2, {"max_episode_steps": 100}, -13.0, 1.0, (2, -100)),
        (TAXI, 40, {}, 7.0, 1.0, (10, -50)),  # shortest ways give 7.9 on average
        ("Blackjack-v1", 1000, {}, -0.17, 0.38, (1000, -0.25)),  # four deviations
        ("CartPole-v1", 3, {}, 500.0, 1.0, (10, 100)),
        ("MountainCar-v0", 5, {}, -140, 1.0, (3, -199)),
        ("Acrobot-v1", 4, {}, -120, 1.0, (2, -300)),
    ],
)
def test_the_oracle_beats_random_moves(env_id, episodes, settings, earned, won, chance):
    total, success = play(env_id, "oracle_action", episodes, settings)
    assert total >= earned
    assert success >= won
    if chance:
        assert play(env_id, "random_action", chance[0], settings)[0] < chance[1]


def test_a_transition_table_gives_an_oracle():
    class Corridor(gym.Env):
        observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
        P = {
            at: {
                0: [(1.0, max(at - 1, 0), -1.0, False)],
                1: [(0.5, at, -1.0, False), (0.5, at + 1, 5.0 * (at == 2), at == 2)],
            }
            for at in range(3)
        }

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.s = 1
            return 1, {}

    env = AsText(Corridor())
    env.reset(seed=0)
    assert env.oracle_action() == "1"
    del Corridor.P
    with pytest.raises(NotImplementedError):
        AsText(Corridor()).oracle_action()
