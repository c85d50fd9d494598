"""Calls of a reward function: async or not, limits, timeouts, and tries."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time

import pytest

from llm_gym.errors import ConfigError
from llm_gym_agents.rollouts import rewards as reward_calls
from llm_gym_agents.rollouts.rewards import RewardError, apply_reward_fn
from tests.agents.scored import batch


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(reward_calls, "_FIRST_WAIT_S", 0.001)


async def late(trajectory):
    await asyncio.sleep(0.001)
    return trajectory.episode_id


class AsyncJudge:
    async def __call__(self, trajectory, environment):
        return trajectory.episode_id + environment


@pytest.mark.parametrize(
    "function",
    [late, functools.partial(late), lambda trajectory: late(trajectory)],
    ids=["async", "partial", "makes a coroutine"],
)
@pytest.mark.parametrize("limits", [{}, {"timeout": 5, "concurrency": 2}])
def test_async_functions_keep_the_order(function, limits):
    assert apply_reward_fn(function, batch(50), **limits) == list(range(50))


def test_an_object_with_an_async_call_is_awaited():
    assert apply_reward_fn(AsyncJudge(), batch(3), 10) == [10, 11, 12]


def test_async_functions_work_inside_a_running_loop():
    async def notebook():
        return apply_reward_fn(late, batch(3))

    assert asyncio.run(notebook()) == [0, 1, 2]


def running_at_once(function_of, **limits):
    """Return the most calls that were under way together."""
    now, most, lock = 0, 0, threading.Lock()

    def change(by):
        nonlocal now, most
        with lock:
            now += by
            most = max(most, now)

    apply_reward_fn(function_of(change), batch(40), **limits)
    return most


def async_judge(change):
    async def judge(trajectory):
        change(1)
        await asyncio.sleep(0.005)
        change(-1)
        return 0

    return judge


def plain_judge(change):
    def judge(trajectory):
        change(1)
        time.sleep(0.005)
        change(-1)
        return 0

    return judge


@pytest.mark.parametrize("concurrency", [1, 3, 40])
def test_concurrency_bounds_async_calls(concurrency):
    assert running_at_once(async_judge, concurrency=concurrency) == concurrency


def test_the_usual_concurrency_is_many_for_async_and_one_for_plain_functions():
    assert running_at_once(async_judge) == reward_calls.ASYNC_CONCURRENCY
    assert running_at_once(plain_judge) == 1
    assert running_at_once(plain_judge, timeout=5) == 1
    assert running_at_once(plain_judge, concurrency=4) <= 4


def test_plain_calls_run_side_by_side_if_asked():
    together = threading.Barrier(4, timeout=60)  # breaks unless four are running at once
    apply_reward_fn(lambda trajectory: together.wait() * 0.0, batch(40), concurrency=4)
    assert not together.broken


@pytest.mark.parametrize("is_async", [True, False])
def test_a_call_that_takes_too_long_is_given_up(is_async):
    go_on, ended = threading.Event(), []

    async def hangs_async(trajectory):
        await asyncio.sleep(600)
        ended.append(trajectory)

    def hangs(trajectory):
        go_on.wait(60)
        ended.append(trajectory)

    with pytest.raises(RewardError, match=r"took more than 0.05 s, on episode 0"):
        apply_reward_fn(hangs_async if is_async else hangs, batch(1), timeout=0.05)
    assert not ended, "it was waited for"
    go_on.set()


def test_a_timeout_of_the_functions_own_is_not_taken_for_ours():
    def judge(trajectory):
        raise TimeoutError("the server is slow")

    with pytest.raises(RewardError, match="raised TimeoutError: the server is slow"):
        apply_reward_fn(judge, batch(1), timeout=5)


@pytest.mark.parametrize("limits", [{}, {"timeout": 5}])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_call_is_tried_again(limits, is_async):
    tries = {}

    def judge(trajectory):
        tries[trajectory.episode_id] = tries.get(trajectory.episode_id, 0) + 1
        if tries[trajectory.episode_id] < 3:
            raise ConnectionError("busy")
        return 1

    async def async_judge(trajectory):
        return judge(trajectory)

    function = async_judge if is_async else judge
    assert apply_reward_fn(function, batch(2), retries=2, **limits) == [1.0, 1.0]
    assert tries == {0: 3, 1: 3}
    tries.clear()
    with pytest.raises(RewardError, match="raised ConnectionError: busy"):
        apply_reward_fn(function, batch(1), retries=1, **limits)


def test_waits_between_tries_grow_to_a_limit():
    waits = [reward_calls._wait(attempt) for attempt in range(40)]
    assert waits[:3] == [0.001, 0.002, 0.004]
    assert waits[-1] == 5.0


def test_one_failure_ends_the_other_calls():
    ended = []

    async def judge(trajectory):
        if trajectory.episode_id == 0:
            raise ValueError("bad")
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(trajectory.episode_id)

    with pytest.raises(RewardError, match="bad"):
        apply_reward_fn(judge, batch(4))
    assert sorted(ended) == [1, 2, 3]


@pytest.mark.parametrize("limits", [{}, {"timeout": 5}])
def test_stop_iteration_in_a_function_hangs_nobody(limits):
    with pytest.raises(RewardError, match="StopIteration"):
        apply_reward_fn(lambda trajectory: next(iter(())), batch(1), **limits)


def test_threads_see_the_context_of_the_caller():
    setting = contextvars.ContextVar("setting", default=0)
    setting.set(3)
    assert apply_reward_fn(lambda trajectory: setting.get(), batch(1), timeout=5) == [3.0]

    async def notebook():
        setting.set(4)
        return apply_reward_fn(lambda trajectory: setting.get(), batch(1), timeout=5)

    assert asyncio.run(notebook()) == [4.0]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"timeout": 0}, "timeout must be above 0 or None, got 0"),
        ({"retries": -1}, "retries must not be negative, got -1"),
        ({"concurrency": 0}, "concurrency must be at least 1 or None, got 0"),
    ],
)
def test_bad_limits_are_named(limits, message):
    with pytest.raises(ConfigError, match=message):
        apply_reward_fn(lambda trajectory: 1, batch(), **limits)
