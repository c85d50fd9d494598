"""The manager that comes along: terms, limits of steps, and its use as a reward function."""

from __future__ import annotations

import gymnasium as gym
import pytest
import torch

import llm_gym  # noqa: F401 - registers the environments
from llm_gym.episodes import Trajectory, play_episode
from llm_gym.errors import ConfigError
from llm_gym.legacy import SimpleGameEnvironment, as_gym
from llm_gym_agents.rollouts.rewards import RewardManager, apply_reward_fn, reward_metrics

PLAYED = {
    "rewards": [0.5, -0.25, 1.0],
    "infos": [{}, {"invalid_action": True}, {"success": True}],
    "num_turns": 3,
}


def as_trajectory(played):
    return Trajectory(
        actions=["a"] * played["num_turns"], rewards=played["rewards"], infos=played["infos"]
    )


@pytest.mark.parametrize("made", [dict, as_trajectory])
def test_the_terms_are_those_of_the_formula(made):
    class Environment:
        max_steps = 10

    manager = RewardManager(Environment())
    assert manager(made(PLAYED)) == pytest.approx(
        {"sum": 1.25, "success_bonus": 5.0, "invalid_penalty": -0.5, "efficiency_bonus": 0.7}
    )
    assert manager.compute_trajectory_reward(made(PLAYED)) == pytest.approx(6.45)


def test_every_term_has_its_setting():
    manager = RewardManager(None, 1.0, 2.0, 0.0)
    assert manager(PLAYED) == {"sum": 1.25, "success_bonus": 1.0, "invalid_penalty": -2.0}
    assert RewardManager(None, 0, 0, 1.0, max_steps=5).compute_trajectory_reward(PLAYED) == 3.25


def test_a_batch_is_a_tensor_and_its_terms_are_metrics():
    lost = {"rewards": [0.0], "infos": [{"success": False}], "num_turns": 1}
    manager = RewardManager(max_steps=10)
    rewards = manager.compute_batch_rewards([PLAYED, as_trajectory(lost)])
    torch.testing.assert_close(rewards, torch.tensor([6.45, 0.9]))
    assert manager.metrics == pytest.approx(
        {
            "reward/sum": 0.625,
            "reward/success_bonus": 2.5,
            "reward/invalid_penalty": -0.25,
            "reward/efficiency_bonus": 0.8,
        }
    )
    assert manager.compute_batch_rewards([]).shape == (0,)
    assert manager.metrics == {}


def test_a_manager_is_a_reward_function_on_played_episodes():
    env = gym.make("llm_gym/GuessTheNumber-v0", max_turns=5)
    actions = iter(["a cat", "0"])
    one = play_episode(env, lambda _: next(actions, env.unwrapped.oracle_action()), seed=0)
    assert one.rewards == [0.0, 0.0, 1.0]
    assert apply_reward_fn(RewardManager(env), [one]) == pytest.approx([1 + 5 - 2 * 0.5 + 2 * 0.1])
    assert reward_metrics([one])["reward/invalid_penalty"] == -1.0
    assert reward_metrics([one])["reward/env"] == 1.0


@pytest.mark.parametrize(
    ("environment", "limit"),
    [
        (SimpleGameEnvironment({"max_steps": 7}), 7),
        (as_gym(SimpleGameEnvironment({"max_steps": 7})), 7),
        (gym.make("llm_gym/GuessTheNumber-v0", max_turns=4), 4),
        ("llm_gym/GuessTheNumber-v0", 5),
        (gym.wrappers.TransformReward(gym.make("llm_gym/GuessTheNumber-v0"), float), 5),
    ],
)
def test_the_limit_of_steps_is_found_in_every_kind_of_environment(environment, limit):
    lost = {"rewards": [0.0], "infos": [{}], "num_turns": 1}
    expected = pytest.approx(0.1 * (limit - 1))
    assert RewardManager(environment).compute_trajectory_reward(lost) == expected
    assert sum(RewardManager()(lost, environment).values()) == expected


def test_an_efficiency_bonus_without_a_limit_of_steps_is_refused():
    with pytest.raises(ConfigError, match="efficiency_bonus needs the limit of steps; pass"):
        RewardManager()(PLAYED)
    with pytest.raises(ConfigError, match="max_steps must be at least 1, got 0"):
        RewardManager(max_steps=0)
