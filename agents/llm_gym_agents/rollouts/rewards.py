"""Rewards of your own: a function of the whole episode.

``apply_reward_fn`` scores complete episodes after they were played and before they are trained
on. A score is one number for an episode, so it goes onto the last turn: in place of the
environment's rewards, or on top of them. What the environment gave stays in ``extra``.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import gymnasium as gym
import torch
from torch import Tensor

from llm_gym.core.infos import flag
from llm_gym.episodes import Trajectory
from llm_gym.episodes.record import ENV_REWARDS
from llm_gym.errors import ConfigError, LLMGymError
from llm_gym.registry.user_code import close_user_env
from llm_gym_agents.rollouts.turns import MOST_REWARD
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


ASYNC_CONCURRENCY = 32
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0

Function = Callable[..., Any]


class CallFailed(Exception):
    """A call did not succeed, retries included; ``__cause__`` is its last error, if it raised."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)
        self.index, self.reason = index, reason


@dataclass(frozen=True)
class Limits:
    """How calls are made.

    Args:
        timeout: Seconds that a call may take; None for any number.
        retries: Further tries after a call that raised or took too long, with growing waits
            between them.
        concurrency: Calls at a time; None is 32 for an async function and 1 for a plain one,
            which may not be made to run in threads.
    """

    timeout: float | None = None
    retries: int = 0
    concurrency: int | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(f"timeout must be above 0 or None, got {self.timeout}")
        if self.retries < 0:
            raise ConfigError(f"retries must not be negative, got {self.retries}")
        if self.concurrency is not None and self.concurrency < 1:
            raise ConfigError(f"concurrency must be at least 1 or None, got {self.concurrency}")


def call_all(function: Function, calls: Sequence[tuple[Any, ...]], limits: Limits) -> list[Any]:
    """Return what ``function`` gives for each of ``calls``, in their order.

    Raises ``CallFailed`` for the first that fails. It works inside a running event loop too,
    which it blocks meanwhile, like any plain function.
    """
    if not _is_async(function) and limits.timeout is None and limits.concurrency in (None, 1):
        results = []
        for index, arguments in enumerate(calls):
            result = _call(function, arguments, index, limits.retries)
            if inspect.isawaitable(result):  # a plain function that only makes a coroutine
                if inspect.iscoroutine(result):
                    result.close()
                return _run(_gather(function, calls, limits, ASYNC_CONCURRENCY))
            results.append(result)
        return results
    usual = ASYNC_CONCURRENCY if _is_async(function) else 1
    return _run(_gather(function, calls, limits, usual))


def _call(function: Function, arguments: tuple[Any, ...], index: int, retries: int) -> Any:
    for attempt in range(retries + 1):
        try:
            return function(*arguments)
        except Exception as error:
            if attempt == retries:
                raise CallFailed(index, _raised(error)) from error
            time.sleep(_wait(attempt))
    return None


def _is_async(function: Function) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - of an object, to look at it
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _run(work: Coroutine[Any, Any, list[Any]]) -> list[Any]:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:  # a thread has at most one loop, and ours is taken
        return thread.submit(contextvars.copy_context().run, asyncio.run, work).result()


async def _gather(
    function: Function, calls: Sequence[tuple[Any, ...]], limits: Limits, usual: int
) -> list[Any]:
    gate = asyncio.Semaphore(limits.concurrency or usual)

    async def one(index: int, arguments: tuple[Any, ...]) -> Any:
        async with gate:
            return await _try(function, arguments, index, limits)

    tasks = [asyncio.create_task(one(*numbered)) for numbered in enumerate(calls)]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _try(function: Function, arguments: tuple[Any, ...], index: int, limits: Limits) -> Any:
    for attempt in range(limits.retries + 1):
        try:
            async with asyncio.timeout(limits.timeout) as clock:
                return await _start(function, arguments)
        except Exception as error:
            if attempt == limits.retries:
                late = clock.expired()
                reason = f"took more than {limits.timeout:g} s" if late else _raised(error)
                raise CallFailed(index, reason) from error
            await asyncio.sleep(_wait(attempt))
    return None


async def _start(function: Function, arguments: tuple[Any, ...]) -> Any:
    if _is_async(function):
        return await function(*arguments)
    result = await _in_thread(function, arguments)
    return await result if inspect.isawaitable(result) else result


def _in_thread(function: Function, arguments: tuple[Any, ...]) -> Awaitable[Any]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = function(*arguments)
        except StopIteration as stop:  # no future may hold one
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:  # noqa: BLE001 - whatever ends the thread, the caller must know
            error = raised
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True).start()
    return future


def _raised(error: BaseException) -> str:
    return f"raised {type(error).__name__}: {error}" if str(error) else f"raised {error!r}"


def _wait(attempt: int) -> float:
    return min(_FIRST_WAIT_S * 2.0**attempt, _LONGEST_WAIT_S)


class RewardManager:
    """The usual terms of an episode's reward; a ``reward_fn``, and usable alone.

    - ``sum``: what the environment paid;
    - ``success_bonus``: for an episode that was won;
    - ``invalid_penalty``: for every reply that could not be used;
    - ``efficiency_bonus``: for every step left of the limit, won or not. It pays for losing
      quickly too; keep it well below what success is worth.

    Episodes are ``Trajectory`` objects, or dictionaries with ``rewards``, ``infos`` and
    ``num_turns``.

    Args:
        environment: An environment or an id, where the limit of steps is read from unless
            ``max_steps`` says it.
        success_bonus: Added once.
        invalid_penalty: Subtracted each time.
        efficiency_bonus: Added per step left.
        max_steps: The limit of steps; None for the environment's.

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
        if max_steps is not None and max_steps < 1:
            raise ConfigError(f"max_steps must be at least 1, got {max_steps}")
        self.environment, self.max_steps = environment, max_steps
        self.success_bonus, self.invalid_penalty = success_bonus, invalid_penalty
        self.efficiency_bonus = efficiency_bonus
        self.metrics: dict[str, float] = {}
        """Mean of each term over the last batch, such as ``reward/success_bonus``."""

    def __call__(
        self, trajectory: Trajectory | Mapping[str, Any], environment: Any = None
    ) -> dict[str, float]:
        """Return the terms of an episode's reward, by name."""
        rewards, infos = _of(trajectory, "rewards", ()), _of(trajectory, "infos", ())
        last = infos[-1] if len(infos) else {}
        success = getattr(trajectory, "success", None)
        won = flag(last, "success") if success is None else success
        terms = {
            "sum": float(sum(rewards)),
            "success_bonus": self.success_bonus * bool(won),
            "invalid_penalty": -self.invalid_penalty * sum(map(_is_invalid, infos)),
        }
        if self.efficiency_bonus:
            left = self._limit(environment) - _of(trajectory, "num_turns", len(rewards))
            terms["efficiency_bonus"] = self.efficiency_bonus * left
        return terms

    def compute_trajectory_reward(self, trajectory: Trajectory | Mapping[str, Any]) -> float:
        """Return the reward of one episode."""
        return float(sum(self(trajectory).values()))

    def compute_batch_rewards(
        self, trajectories: Sequence[Trajectory | Mapping[str, Any]]
    ) -> Tensor:
        """Return the reward of each episode, and note the mean of each term in ``metrics``."""
        rows = [self(trajectory) for trajectory in trajectories]
        self.metrics = {
            f"reward/{name}": sum(row[name] for row in rows) / len(rows)
            for name in (rows[0] if rows else {})
        }
        return torch.tensor([sum(row.values()) for row in rows], dtype=torch.float32)

    def _limit(self, environment: Any) -> int:
        if self.max_steps is not None:
            return self.max_steps
        for env in (self.environment, environment):
            limit = _max_steps(env)
            if limit is not None:
                return limit
        raise ConfigError(
            "efficiency_bonus needs the limit of steps; pass max_steps=..., an environment that "
            "has one, or efficiency_bonus=0"
        )


@lru_cache(maxsize=8)
def _max_steps_of(env_id: str) -> int | None:
    env = gym.make(env_id)
    try:
        return _max_steps(env)
    finally:
        close_user_env(env)


def _max_steps(env: Any) -> int | None:
    if isinstance(env, str):
        return _max_steps_of(env)
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


def _of(trajectory: Trajectory | Mapping[str, Any], name: str, default: Any) -> Any:
    if isinstance(trajectory, Mapping):
        return trajectory.get(name, default)
    return getattr(trajectory, name)
