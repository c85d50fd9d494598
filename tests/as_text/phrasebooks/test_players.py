"""The words are enough: a player who reads nothing else solves the environment."""

import statistics

import gymnasium as gym
import pytest

from llm_gym.as_text import make_text
from tests.as_text.phrasebooks import readers_of_text as players

TAXI = max(env_id for env_id in gym.registry if env_id.startswith("Taxi-v"))
CLIFF = max(env_id for env_id in gym.registry if env_id.startswith("CliffWalking-v"))


def play(env_id, player, episodes, **settings):
    """Return the mean return and the share of successes over the seeds 0, 1, ..."""
    env = make_text(env_id, **settings)
    returns, wins = [], 0
    for seed in range(episodes):
        observation, info = env.reset(seed=seed)
        act = player() if player else lambda _: env.get_wrapper_attr("random_action")()
        total, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, info = env.step(act(observation))
            assert info["valid_action"], observation
            total += float(reward)
            done = terminated or truncated
        returns.append(total)
        wins += info.get("success", False)
    return statistics.mean(returns), wins / episodes


def test_the_lake_is_crossed_whenever_the_ice_holds():
    assert play("FrozenLake-v1", players.frozen_lake, 3, is_slippery=False) == (1.0, 1.0)
    assert play("FrozenLake8x8-v1", players.frozen_lake, 1, is_slippery=False) == (1.0, 1.0)


def test_slippery_ice_is_crossed_about_as_often_as_can_be():
    # The best player of the 4x4 lake reaches the goal within 100 moves in 74 of 100 episodes.
    _, success = play("FrozenLake-v1", players.frozen_lake, 100)
    assert success == pytest.approx(0.74, abs=4 * (0.74 * 0.26 / 100) ** 0.5)
    assert play("FrozenLake-v1", None, 100)[1] < 0.1


def test_the_cliff_is_passed_on_the_shortest_safe_way():
    assert play(CLIFF, players.cliff_walking, 2) == (-13.0, 1.0)
    total, success = play(CLIFF, None, 2, max_episode_steps=100)
    assert total < -100
    assert success == 0.0


def test_every_passenger_arrives():
    total, success = play(TAXI, players.taxi, 40)
    assert success == 1.0
    assert total > 7.0  # shortest ways give 7.9 on average
    assert play(TAXI, None, 10)[0] < -50


def test_basic_strategy_nearly_breaks_even():
    total, success = play("Blackjack-v1", players.blackjack, 1000)
    assert total == pytest.approx(-0.05, abs=0.12)  # four standard deviations
    assert success > 0.38
    assert play("Blackjack-v1", None, 1000)[0] < -0.25


def test_the_pole_is_balanced_to_the_end():
    assert play("CartPole-v1", players.cart_pole, 3) == (500.0, 1.0)
    assert play("CartPole-v1", None, 10)[0] < 100


def test_the_car_climbs_the_mountain():
    total, success = play("MountainCar-v0", players.mountain_car, 10)
    assert success == 1.0
    assert total > -140
    assert play("MountainCar-v0", None, 3) == (-200.0, 0.0)


def test_the_acrobot_swings_up():
    total, success = play("Acrobot-v1", players.acrobot, 4)
    assert success == 1.0
    assert total > -120
    assert play("Acrobot-v1", None, 2)[0] < -300


def test_the_lander_lands():
    pytest.importorskip("Box2D")
    total, success = play("LunarLander-v3", players.lunar_lander, 10)
    assert success >= 0.7
    assert total > 200
    assert play("LunarLander-v3", None, 5)[0] < 0
