"""Rewards of your own: a function of the whole episode.

``apply_reward_fn`` scores complete episodes after they were played and before they are trained
on. A score is one number for an episode, so it goes onto the last turn: in place of the
environment's rewards, or on top of them. What the environment gave stays in ``extra``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from torch import Tensor

from llm_gym.episodes import Trajectory
from llm_gym.episodes.record import ENV_REWARDS
from llm_gym.errors import ConfigError, LLMGymError
from llm_gym_agents.rollouts.failures import MOST_REWARD
from llm_gym_agents.rollouts.reward_calls import CallFailed, Limits, call_all
from llm_gym_agents.run import metrics

RewardFn = Callable[..., Any]
"""``(trajectory)`` or ``(trajectory, environment)``, plain or async. It returns a number, or a
dictionary of named terms that add up to it."""

REWARD_TERMS = "reward_terms"
_TOTAL = "reward_fn"


class RewardError(LLMGymError, RuntimeError):
    """A reward function failed on an episode, or gave what is no reward."""


def apply_reward_fn(
    reward_fn: RewardFn,
    episodes: Sequence[Trajectory],
    environment: Any = None,
    *,
    mode: Literal["replace", "add"] = "replace",
    timeout: float | None = None,
    retries: int = 0,
    concurrency: int | None = None,
) -> list[float]:
    """Score ``episodes`` and put the scores into their rewards; return the scores.

    All of them are changed or, if one cannot be scored, none. ``extra`` keeps what the
    environment gave (``env_rewards``) and the terms of the score (``reward_terms``).

    Args:
        reward_fn: See ``RewardFn``.
        episodes: Complete episodes, each with a turn at least; updated in place.
        environment: Given to a function that takes one.
        mode: ``replace`` leaves only the score, on the last turn; ``add`` adds it to the last
            turn's reward.
        timeout: Seconds that a call may take; None for any number.
        retries: Further tries after a call that raised or took too long.
        concurrency: Calls at a time; None is 32 for an async function and 1 for a plain one.

    >>> episode = Trajectory(states=["?", "!"], actions=["hm"], rewards=[0.25])
    >>> apply_reward_fn(lambda trajectory: len(trajectory.actions[0]), [episode])
    [2.0]
    >>> episode.rewards, episode.extra["env_rewards"]
    ([2.0], [0.25])
    """
    if mode not in ("replace", "add"):
        raise ConfigError(f"mode must be 'replace' or 'add', got {mode!r}")
    limits = Limits(timeout, retries, concurrency)
    second = (environment,) if takes_environment(reward_fn) else ()
    for at, episode in enumerate(episodes):
        _check_turns(episode, at)
    try:
        given = call_all(reward_fn, [(episode, *second) for episode in episodes], limits)
    except CallFailed as failed:
        name = _name(episodes[failed.index], failed.index)
        raise RewardError(f"the reward function {failed.reason}, on {name}") from failed.__cause__
    terms = [_read_terms(value, episodes[at], at) for at, value in enumerate(given)]
    for at, episode in enumerate(episodes):
        _check_turns(episode, at)  # once more: the function had them in its hands
    for episode, parts in zip(episodes, terms, strict=True):
        _place(episode, parts, mode)
    return [sum(parts.values()) for parts in terms]


def settle_rewards(
    reward_fn: RewardFn | None,
    episodes: Sequence[Trajectory],
    environment: Any = None,
    *,
    mode: Literal["replace", "add"] = "replace",
    timeout: float | None = None,
    retries: int = 0,
    concurrency: int | None = None,
) -> dict[str, float]:
    """Call ``apply_reward_fn``, if there is a function; return what it came to, as metrics."""
    if reward_fn is None:
        return {}
    apply_reward_fn(
        reward_fn,
        episodes,
        environment,
        mode=mode,
        timeout=timeout,
        retries=retries,
        concurrency=concurrency,
    )
    return reward_metrics(episodes)


def reward_metrics(episodes: Sequence[Trajectory]) -> dict[str, float]:
    """Return the mean of every term that ``apply_reward_fn`` noted, and of what it replaced.

    ``reward/success_bonus`` and so on for a function with terms; ``reward/env`` is the
    environment's own return. Empty where no reward function was applied.
    """
    noted = [
        episode.extra for episode in episodes if episode.extra and ENV_REWARDS in episode.extra
    ]
    if not noted:
        return {}
    names = dict.fromkeys(name for extra in noted for name in extra[REWARD_TERMS])
    means = {
        metrics.term(name): sum(extra[REWARD_TERMS].get(name, 0.0) for extra in noted) / len(noted)
        for name in names
    }
    env = sum(sum(extra[ENV_REWARDS]) for extra in noted) / len(noted)
    return {metrics.ENV_RETURN: env} | means


def takes_environment(reward_fn: RewardFn) -> bool:
    """Return whether a reward function is to be given the environment as well.

    >>> takes_environment(lambda trajectory: 0.0), takes_environment(lambda t, environment: 0.0)
    (False, True)
    """
    if not callable(reward_fn):
        raise ConfigError(f"reward_fn must be a function, got {type(reward_fn).__name__}")
    try:
        signature = inspect.signature(reward_fn)
    except ValueError:  # a builtin that does not say what it takes
        return False
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    second = [p for p in signature.parameters.values() if p.kind in by_place][1:2]
    # An optional second argument of another name is a setting of the function's own.
    wanted = not second or second[0].default is inspect.Parameter.empty
    wanted = wanted or second[0].name in ("environment", "env")
    for arguments in ((None, None), (None,)) if wanted else ((None,),):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) == 2
    raise ConfigError(
        f"reward_fn must take (trajectory) or (trajectory, environment), got {signature}"
    )


def _check_turns(episode: Trajectory, at: int) -> None:
    turns = len(episode.actions) or len(episode.rewards)
    if not turns:
        raise RewardError(f"{_name(episode, at)} has no turn that a reward could go to")
    if len(episode.rewards) not in (0, turns):
        raise RewardError(
            f"{_name(episode, at)} must have a reward per turn, got {len(episode.rewards)} for "
            f"{turns} turns"
        )


def _read_terms(value: Any, episode: Trajectory, at: int) -> dict[str, float]:
    if not isinstance(value, Mapping):
        return {_TOTAL: _read_number(value, "", episode, at)}
    if not value:
        raise RewardError(f"the reward function returned no terms, on {_name(episode, at)}")
    return {
        str(name): _read_number(part, f" as {name!r}", episode, at) for name, part in value.items()
    }


def _read_number(value: Any, what: str, episode: Trajectory, at: int) -> float:
    number = math.nan
    if isinstance(value, Tensor):
        value = value.detach()
    if not isinstance(value, (str, bytes)) and not getattr(value, "ndim", 0):
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
    if not abs(number) <= MOST_REWARD:  # true for NaN too
        raise RewardError(
            f"the reward function must return a finite number of float32, got {value!r:.60}{what}, "
            f"on {_name(episode, at)}"
        )
    return number


def _place(episode: Trajectory, terms: dict[str, float], mode: str) -> None:
    turns = len(episode.actions) or len(episode.rewards)
    rewards = [float(reward) for reward in episode.rewards] or [0.0] * turns
    extra = dict(episode.extra or {})
    extra.setdefault(ENV_REWARDS, rewards)
    extra[REWARD_TERMS] = terms
    kept = rewards if mode == "add" else [0.0] * turns
    episode.rewards = [*kept[:-1], kept[-1] + sum(terms.values())]
    episode.extra = extra


def _name(episode: Trajectory, at: int) -> str:
    name = f"episode {episode.episode_id}"
    if episode.episode_id is None:
        name = f"the episode at place {at}"
    return name if episode.seed is None else f"{name} (seed {episode.seed})"
