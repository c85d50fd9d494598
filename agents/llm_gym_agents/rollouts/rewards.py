"""Reward functions of the user, over whole episodes. ``RewardManager`` is an example.

``apply_reward_fn`` scores complete episodes after play and before training. A score is one number,
which goes to the last turn, or one number for each turn. Scores replace the environment's rewards
in training. The environment's own rewards stay in ``extra``.
"""

import asyncio
import contextvars
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym.core.infos import flag
from llm_gym.core.settings import check_range
from llm_gym.episodes import Trajectory
from llm_gym.episodes.play import MAX_REWARD
from llm_gym.episodes.record import ENV_REWARDS
from llm_gym.registry.user_code import close_user_env
from llm_gym_agents.run import metrics

RewardFn = Callable[..., Any]
"""A function of ``(trajectory)`` or ``(trajectory, environment)``, sync or async. It returns a
number, a list with one number per turn, or a dictionary of named terms, which are summed."""

MAX_ASYNC_CALLS = 32
"""Maximum parallel calls of an async reward function. Sync calls run one by one."""
REWARD_TERMS = "reward_terms"
_TOTAL = "reward_fn"


class RewardError(LLMGymError, RuntimeError):
    """A reward function failed on an episode, or did not return a reward."""


def apply_reward_fn(
    reward_fn: RewardFn, episodes: Sequence[Trajectory], environment: Any = None
) -> list[float]:
    """Score ``episodes`` and put the scores into their rewards; return the scores.

    If one episode cannot be scored, none is changed. ``extra`` keeps the environment's rewards
    (``env_rewards``) and the terms of the score (``reward_terms``). The function itself must handle
    timeouts and retries.

    Args:
        reward_fn: See ``RewardFn``.
        episodes: Complete episodes with at least one turn; updated in place.
        environment: Passed to a function that takes one.

    >>> episode = Trajectory(states=["?", "!"], actions=["hm"], rewards=[0.25])
    >>> apply_reward_fn(lambda trajectory: len(trajectory.actions[0]), [episode])
    [2.0]
    >>> episode.rewards, episode.extra["env_rewards"]
    ([2.0], [0.25])
    """
    second = (environment,) if takes_environment(reward_fn) else ()
    for at, episode in enumerate(episodes):
        _check_turns(episode, at)
    scores = _call_all(reward_fn, episodes, second)
    terms = [_read_terms(score, episodes[at], at) for at, score in enumerate(scores)]
    for at, episode in enumerate(episodes):
        _check_turns(episode, at)  # again: the function may have changed them
    for episode, parts in zip(episodes, terms, strict=True):
        extra = dict(episode.extra or {})
        own = [float(reward) for reward in episode.rewards] or [0.0] * _turns(episode)
        extra.setdefault(ENV_REWARDS, own)
        extra[REWARD_TERMS] = {name: sum(each) for name, each in parts.items()}
        episode.rewards = [float(sum(turn)) for turn in zip(*parts.values(), strict=True)]
        episode.extra = extra
    return [sum(map(sum, parts.values())) for parts in terms]


def reward_metrics(episodes: Sequence[Trajectory]) -> dict[str, float]:
    """Return the mean of every reward term, and of the environment's own return.

    ``reward/success_bonus`` and so on for a function with terms; ``reward/env`` for the
    environment. Empty where no reward function was applied.
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


def takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether ``function`` takes ``count`` arguments by place, as far as can be known."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except (TypeError, ValueError) as error:  # ValueError: a builtin without a signature
        return isinstance(error, ValueError)
    return True


def takes_environment(reward_fn: RewardFn) -> bool:
    """Return whether a reward function takes the environment as its second argument.

    >>> takes_environment(lambda trajectory: 0.0), takes_environment(lambda t, environment: 0.0)
    (False, True)
    """
    if not callable(reward_fn):
        raise ConfigError(f"reward_fn must be a function, got {type(reward_fn).__name__}")
    try:
        signature = inspect.signature(reward_fn)
    except ValueError:  # a builtin without a signature
        return False
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    second = [p for p in signature.parameters.values() if p.kind in by_place][1:2]
    # An optional second argument of another name is a setting of the function's own.
    wanted = not second or second[0].default is inspect.Parameter.empty
    wanted = wanted or second[0].name in ("environment", "env")
    for count in (2, 1) if wanted else (1,):
        if takes(reward_fn, count):
            return count == 2
    raise ConfigError(
        f"reward_fn must take (trajectory) or (trajectory, environment), got {signature}"
    )


# --- calling the function ------------------------------------------------------------------


def _call_all(
    reward_fn: RewardFn, episodes: Sequence[Trajectory], second: tuple[Any, ...]
) -> list[Any]:
    results = []
    for at, episode in enumerate(episodes):
        try:
            result = reward_fn(episode, *second)
        except Exception as error:
            raise _failed(error, episode, at) from error
        if inspect.isawaitable(result):
            return _run(_await_all(result, reward_fn, episodes, second))
        results.append(result)
    return results


async def _await_all(
    first: Awaitable[Any],
    reward_fn: RewardFn,
    episodes: Sequence[Trajectory],
    second: tuple[Any, ...],
) -> list[Any]:
    slots = asyncio.Semaphore(MAX_ASYNC_CALLS)

    async def call(at: int, episode: Trajectory) -> Any:
        async with slots:
            try:
                return await (first if at == 0 else reward_fn(episode, *second))
            except Exception as error:
                raise _failed(error, episode, at) from error

    tasks = [asyncio.create_task(call(at, episode)) for at, episode in enumerate(episodes)]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _run(work: Any) -> list[Any]:
    """Run a coroutine to its end, even inside a running event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return list(asyncio.run(work))
    with ThreadPoolExecutor(1) as thread:
        return list(thread.submit(contextvars.copy_context().run, asyncio.run, work).result())


def _failed(error: Exception, episode: Trajectory, at: int) -> RewardError:
    return RewardError(
        f"the reward function raised {type(error).__name__}: {error}, on {_name(episode, at)}"
    )


# --- reading and placing a score -----------------------------------------------------------


def _turns(episode: Trajectory) -> int:
    return len(episode.actions) or len(episode.rewards)


def _check_turns(episode: Trajectory, at: int) -> None:
    turns = _turns(episode)
    if not turns:
        raise RewardError(f"{_name(episode, at)} has no turn that a reward could go to")
    if len(episode.rewards) not in (0, turns):
        raise RewardError(
            f"{_name(episode, at)} must have a reward per turn, got {len(episode.rewards)} for "
            f"{turns} turns"
        )


def _read_terms(value: Any, episode: Trajectory, at: int) -> dict[str, list[float]]:
    terms = value if isinstance(value, Mapping) else {_TOTAL: value}
    if not terms:
        raise RewardError(f"the reward function returned no terms, on {_name(episode, at)}")
    return {str(name): _read_turns(part, name, episode, at) for name, part in terms.items()}


def _read_turns(value: Any, name: str, episode: Trajectory, at: int) -> list[float]:
    """Return one number per turn; a single number goes to the last turn."""
    turns = _turns(episode)
    if not isinstance(value, list | tuple) and getattr(value, "ndim", 0) != 1:
        return [*[0.0] * (turns - 1), _read_number(value, name, episode, at)]
    if len(value) != turns:
        raise RewardError(
            f"the reward function must return a number, or one for each of {turns} turns, got "
            f"{len(value)} as {name!r}, on {_name(episode, at)}"
        )
    return [_read_number(each, name, episode, at) for each in value]


def _read_number(value: Any, name: str, episode: Trajectory, at: int) -> float:
    number = math.nan
    if isinstance(value, Tensor):
        value = value.detach()
    if not isinstance(value, (str, bytes)) and not getattr(value, "ndim", 0):
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
    if not abs(number) <= MAX_REWARD:  # true for NaN too
        raise RewardError(
            f"the reward function must return a finite number of float32, got {value!r:.60} as "
            f"{name!r}, on {_name(episode, at)}"
        )
    return number


def _name(episode: Trajectory, at: int) -> str:
    name = f"episode {episode.episode_id}"
    if episode.episode_id is None:
        name = f"the episode at place {at}"
    return name if episode.seed is None else f"{name} (seed {episode.seed})"


# --- a reward function to start with -------------------------------------------------------


class RewardManager:
    """A ``reward_fn`` made of the usual terms.

    - ``sum``: what the environment paid;
    - ``success_bonus``: for a won episode;
    - ``invalid_penalty``: for every reply that could not be used;
    - ``efficiency_bonus``: for every step left, won or lost. It also rewards losing quickly, so
      keep it well below the value of success.

    Episodes are ``Trajectory`` objects, or dictionaries with ``rewards``, ``infos`` and
    ``num_turns``.

    Args:
        environment: An environment or an id. Its step limit is used unless ``max_steps`` is set.
        success_bonus: Added once.
        invalid_penalty: Subtracted each time.
        efficiency_bonus: Added per step left.
        max_steps: The step limit; None for the environment's.

    >>> manager = RewardManager(max_steps=10)
    >>> manager.compute_trajectory_reward(
    ...     {"rewards": [0.0, 1.0], "infos": [{"invalid_action": True}, {"success": True}],
    ...      "num_turns": 2})
    6.3
    """

    def __init__(
        self,
        environment: Any = None,
        success_bonus: float = 5.0,
        invalid_penalty: float = 0.5,
        efficiency_bonus: float = 0.1,
        *,
        max_steps: int | None = None,
    ) -> None:
        check_range("max_steps", max_steps, 1)
        self.environment, self.max_steps = environment, max_steps
        self.success_bonus, self.invalid_penalty = success_bonus, invalid_penalty
        self.efficiency_bonus = efficiency_bonus
        self.metrics: dict[str, float] = {}
        """Mean of each term over the last batch, such as ``reward/success_bonus``."""

    def __call__(
        self, trajectory: Trajectory | Mapping[str, Any], environment: Any = None
    ) -> dict[str, float]:
        """Return the terms of an episode's reward, by name."""
        rewards, infos = _read(trajectory, "rewards"), _read(trajectory, "infos")
        success = getattr(trajectory, "success", None)
        if success is None:
            success = flag(infos[-1], "success") if infos else False
        terms = {
            "sum": float(sum(rewards)),
            "success_bonus": self.success_bonus * bool(success),
            "invalid_penalty": -self.invalid_penalty * sum(map(_is_invalid, infos)),
        }
        if self.efficiency_bonus:
            steps_left = self._step_limit(environment) - _read(trajectory, "num_turns")
            terms["efficiency_bonus"] = self.efficiency_bonus * steps_left
        return terms

    def compute_trajectory_reward(self, trajectory: Trajectory | Mapping[str, Any]) -> float:
        """Return the sum of all terms of an episode."""
        return float(sum(self(trajectory).values()))

    def compute_batch_rewards(
        self, trajectories: Sequence[Trajectory | Mapping[str, Any]]
    ) -> Tensor:
        """Return the reward of each episode; ``metrics`` gets the mean of each term."""
        rows = [self(trajectory) for trajectory in trajectories]
        self.metrics = {
            f"reward/{name}": sum(row[name] for row in rows) / len(rows)
            for name in (rows[0] if rows else {})
        }
        return torch.tensor([sum(row.values()) for row in rows], dtype=torch.float32)

    def _step_limit(self, environment: Any) -> int:
        for env in (self.environment, environment):
            limit = self.max_steps or _max_steps(env)
            if limit is not None:
                return limit
        raise ConfigError(
            "efficiency_bonus needs the limit of steps; pass max_steps=..., an environment that "
            "has one, or efficiency_bonus=0"
        )


@lru_cache(maxsize=8)
def _max_steps_of_id(env_id: str) -> int | None:
    env = gym.make(env_id)
    try:
        return _max_steps(env)
    finally:
        close_user_env(env)


def _max_steps(env: Any) -> int | None:
    if isinstance(env, str):
        return _max_steps_of_id(env)
    bare = getattr(env, "unwrapped", env)
    for owner in (env, bare, getattr(bare, "environment", None)):
        for name in ("max_steps", "max_turns"):
            if isinstance(limit := getattr(owner, name, None), int):
                return limit
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return limit if isinstance(limit, int) else None


def _is_invalid(info: Mapping[str, Any]) -> bool:
    invalid = flag(info, "invalid_action")
    return flag(info, "valid_action") is False if invalid is None else invalid


def _read(trajectory: Trajectory | Mapping[str, Any], name: str) -> Any:
    return trajectory[name] if isinstance(trajectory, Mapping) else getattr(trajectory, name)
