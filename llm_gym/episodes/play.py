"""The plain loop: one environment, one policy, one episode record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from llm_gym.episodes.describe import begin, describe_env
from llm_gym.episodes.record import Trajectory
from llm_gym.episodes.writer import add_turn, close_record, open_record
from llm_gym.errors import ActionTypeError
from llm_gym.legacy import BaseEnvironment, as_gym


def play_episode(
    env: gym.Env[str, str] | BaseEnvironment,
    policy: Callable[[str], str],
    seed: int | None = None,
    options: dict[str, Any] | None = None,
    *,
    episode_id: str | int | None = None,
    group: str | int | None = None,
    policy_name: str | None = None,
    weights_version: int | None = None,
) -> Trajectory:
    """Play one episode and return its record.

    The loop has no limit of its own: put ``EpisodeLimits`` around an environment that may never
    end. What the environment or the policy raises is passed on.

    Args:
        env: Any environment whose observations and actions are text.
        policy: Given an observation, returns the action. It is not given ``system_prompt``.
        seed: Passed to ``reset``.
        options: Passed to ``reset``.
        episode_id: Goes into the record.
        group: Goes into the record; episodes of one group are compared with each other.
        policy_name: Goes into the record as ``policy``.
        weights_version: Goes into the record.

    >>> import llm_gym
    >>> env = gym.make("llm_gym/GuessTheNumber-v0")
    >>> episode = play_episode(env, lambda observation: env.unwrapped.solver_action(), seed=3)
    >>> episode.stop_reason, episode.total_reward
    (<StopReason.WON: 'won'>, 1.0)
    """
    env = as_gym(env)
    episode = open_record(begin(env, seed, options), describe_env(env), seed, options)
    episode.episode_id, episode.group = episode_id, group
    episode.policy, episode.weights_version = policy_name, weights_version
    while not (episode.dones and episode.dones[-1]):
        action = policy(episode.states[-1])
        if not isinstance(action, str):
            raise ActionTypeError(f"a policy returns a str, got {type(action).__name__}")
        add_turn(episode, action, env.step(action))
    return close_record(episode)
