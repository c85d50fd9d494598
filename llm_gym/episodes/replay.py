"""Play a saved episode again, and say where it differs.

A record holds what is needed: how the environment was built, its seed and options, and every
action. What was recorded and what happens now should be the same, in any process; where they are
not, the environment has changed or something in it is not seeded.
"""

from __future__ import annotations

import json
import math
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from llm_gym.core.outcome import TERMINAL, StopReason
from llm_gym.episodes.allowed import refusal
from llm_gym.episodes.describe import begin, describe_env
from llm_gym.episodes.record import ENV_REWARDS, Trajectory
from llm_gym.episodes.writer import add_turn, open_record
from llm_gym.errors import RecordError

_MAX_SHOWN = 100
_MAX_SEED = 2**63


def rebuild(episode: Trajectory, *, trust: bool = False) -> gym.Env[str, str]:
    """Return the environment that ``episode`` was played in.

    Args:
        episode: A record with a spec.
        trust: Whether to run whatever code the spec names. Otherwise it must be a registered
            environment, under wrappers and with tools that are known to be harmless.
    """
    if episode.env_spec is None:
        raise RecordError("the record has no spec of its environment")
    try:
        spec = EnvSpec.from_json(json.dumps(episode.env_spec))
    except (TypeError, ValueError, KeyError, AttributeError, gym.error.Error) as error:
        raise RecordError(f"its environment cannot be rebuilt: {error!s:.300}") from error
    if not trust and (why := refusal(spec)):
        raise RecordError(f"{why}; if you trust the file, pass --trust")
    try:
        return gym.make(spec)
    except Exception as error:  # of whatever kind: the settings are a stranger's
        what = f"{type(error).__name__}: {error!s:.300}"
        raise RecordError(f"its environment cannot be rebuilt: {what}") from error


def replay(env: gym.Env[str, str], episode: Trajectory) -> str:
    """Play the actions of ``episode`` in ``env``; return the first difference, or nothing.

    >>> import llm_gym
    >>> from llm_gym.episodes import play_episode
    >>> env = gym.make("llm_gym/GuessTheNumber-v0")
    >>> episode = play_episode(env, lambda observation: "7", seed=3)
    >>> replay(env, episode)
    ''
    >>> episode.rewards[0] = 0.5
    >>> replay(env, episode)
    'turn 0: the reward is 0.0, was 0.5'
    """
    if episode.seed is None:
        raise RecordError("the record has no seed, so nothing says which episode it is")
    if any(info.get("tool_call") for info in episode.infos):
        raise RecordError("some turns were played by tools outside the environment")
    if not 0 <= episode.seed < _MAX_SEED:
        raise RecordError(f"seed must be from 0 on and below 2**63, got {episode.seed!r:.40}")
    try:
        return _play(env, episode)
    except Exception as error:  # of whatever kind: options and actions are a stranger's
        what = f"{type(error).__name__}: {error!s:.300}"
        raise RecordError(f"the environment raised {what}") from error


def _play(env: gym.Env[str, str], episode: Trajectory) -> str:
    """Return the first difference between ``episode`` and what happens now, or nothing."""
    again = open_record(begin(env, episode.seed, episode.options), describe_env(env))
    if difference := _differs("instance", again.instance_id, episode.instance_id):
        return difference
    if difference := _differs("first observation", again.states[0], _at(episode.states, 0)):
        return difference
    for turn, action in enumerate(_played(episode)):
        if again.dones and again.dones[-1]:
            return f"turn {turn}: the episode is over, and was not"
        add_turn(again, action, env.step(action))
        if difference := _turn_differs(again, episode, turn):
            return f"turn {turn}: {difference}"
    if again.dones and again.dones[-1] and not (episode.dones and episode.dones[-1]):
        return "the episode is over, and was not"
    return ""


def _played(episode: Trajectory) -> list[str]:
    """Return the actions that the environment answered: one that it failed at was the last."""
    failed = bool(episode.infos) and "error" in episode.infos[-1]
    ended = failed and episode.stop_reason == StopReason.ERROR
    return episode.actions[:-1] if ended else episode.actions


def _turn_differs(again: Trajectory, episode: Trajectory, turn: int) -> str:
    rewards = (episode.extra or {}).get(ENV_REWARDS, episode.rewards)
    compared = {
        "observation": (again.states[turn + 1], _at(episode.states, turn + 1)),
        "reward": (again.rewards[turn], _at(rewards, turn)),
        "move": (again.moves[turn], _at(episode.moves, turn)),
        "end (terminated)": (again.terminated[turn], _at(episode.terminated, turn)),
        "cut (truncated)": (again.truncated[turn], _cut(episode, turn)),
    }
    found = (_differs(name, now, then) for name, (now, then) in compared.items())
    return next(filter(None, found), "")


def _at(column: list[Any], turn: int) -> Any:
    return column[turn] if turn < len(column) else None


def _cut(episode: Trajectory, turn: int) -> Any:
    """Return whether the environment cut the episode; None where whoever played it may have."""
    last = turn == len(episode.actions) - 1
    outside = episode.stop_reason not in TERMINAL and episode.stop_reason != StopReason.PLAYING
    return None if last and outside else _at(episode.truncated, turn)


def _differs(name: str, now: Any, then: Any) -> str:
    if then is None or now == then:
        return ""
    if isinstance(now, float) and isinstance(then, float) and math.isclose(now, then, rel_tol=1e-9):
        return ""
    if isinstance(now, str) and isinstance(then, str):
        at = next((i for i, (a, b) in enumerate(zip(now, then, strict=False)) if a != b), None)
        at = min(len(now), len(then)) if at is None else at
        begin = max(0, at - 20)
        now, then = now[begin : begin + _MAX_SHOWN], then[begin : begin + _MAX_SHOWN]
        return f"the {name} differs from character {at} on: it is ...{now!r}, was ...{then!r}"
    return f"the {name} is {now!r:.100}, was {then!r:.100}"
