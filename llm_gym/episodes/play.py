"""The plain loop: one environment, one policy, one episode record."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any, SupportsFloat

import gymnasium as gym

from llm_gym.episodes.encoding import decode, encode
from llm_gym.episodes.record import Trajectory
from llm_gym.errors import ActionTypeError, ContractError
from llm_gym.legacy import BaseEnvironment, LegacyEnv, as_gym


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
    observation, info = env.reset(seed=seed, options=options)
    episode = begin_record(env, observation, info, seed, options)
    episode.episode_id, episode.group = episode_id, group
    episode.policy, episode.weights_version = policy_name, weights_version
    while not (episode.dones and episode.dones[-1]):
        action = policy(episode.states[-1])
        if not isinstance(action, str):
            raise ActionTypeError(f"a policy returns a str, got {type(action).__name__}")
        add_turn(env, episode, action, env.step(action))
    if not any(episode.moves):
        episode.moves = []  # the environment does not say how it understood an action
    return episode


def begin_record(
    env: gym.Env[str, str],
    observation: object,
    info: dict[str, Any],
    seed: int | None = None,
    options: dict[str, Any] | None = None,
) -> Trajectory:
    """Return the record of an episode that has just begun with what ``reset`` returned."""
    episode = Trajectory(
        states=[_text(observation, env)],
        seed=seed,
        options=dict(options) if options else None,
        reset_info=dict(info),
        **describe_env(env),
    )
    prompt = _attribute(env, "system_prompt")  # after reset, which may change the rules
    if isinstance(prompt, str) and prompt:
        episode.messages.append({"role": "system", "content": prompt})
    episode.messages.append({"role": "user", "content": episode.states[0]})
    return episode


def add_turn(
    env: gym.Env[str, str],
    episode: Trajectory,
    action: str,
    step: tuple[str, SupportsFloat, bool, bool, dict[str, Any]],
) -> None:
    """Add a turn to ``episode``: the action, and what ``env.step`` returned for it."""
    observation, reward, terminated, truncated, info = step
    move = info.get("move")
    episode.states.append(_text(observation, env))
    episode.actions.append(action)
    episode.moves.append(move if isinstance(move, str) else None)
    episode.rewards.append(float(reward))
    episode.terminated.append(bool(terminated))
    episode.truncated.append(bool(truncated))
    episode.dones.append(bool(terminated or truncated))
    episode.infos.append(dict(info))
    episode.messages.append({"role": "assistant", "content": action})
    episode.messages.append({"role": "user", "content": observation})


def describe_env(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Return ``env_id``, ``env_spec`` and ``instance_id`` of an environment that was reset.

    An argument that JSON cannot hold is described in the spec: such a record is still readable,
    but its environment cannot be rebuilt from it.
    """
    spec = env.spec
    if spec is None:
        bare = env.unwrapped
        kind = type(bare.environment if isinstance(bare, LegacyEnv) else bare)
        return {"env_id": f"{kind.__module__}:{kind.__qualname__}", "instance_id": _instance(env)}
    try:
        described = json.loads(spec.to_json())
    except (TypeError, ValueError):
        given = {field.name: getattr(spec, field.name) for field in fields(spec) if field.init}
        wrappers = [vars(wrapper) for wrapper in spec.additional_wrappers]
        described = decode(encode({**given, "additional_wrappers": wrappers}))
    return {"env_id": spec.id, "env_spec": described, "instance_id": _instance(env)}


def _instance(env: gym.Env[Any, Any]) -> str | None:
    name = _attribute(env, "instance_id")
    try:
        name = name() if callable(name) else name
        return name if isinstance(name, str) else None
    except NotImplementedError:  # a game need not say what makes its instances differ
        return None


def _attribute(env: gym.Env[Any, Any], name: str) -> Any:
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def _text(observation: object, env: gym.Env[Any, Any]) -> str:
    if not isinstance(observation, str):
        raise ContractError(
            f"play_episode needs text observations, {env} gave {type(observation).__name__}"
        )
    return observation
