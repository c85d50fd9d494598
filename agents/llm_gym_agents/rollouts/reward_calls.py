"""Calling someone's function many times: plain or async, with limits, from any thread.

``call_all`` hides which it was. A plain function without limits is called in a loop, right here,
so that it can be debugged. Everything else runs on an event loop: async functions on it, plain
ones in threads of their own, because a plain function that hangs cannot be stopped, only left
behind.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from llm_gym.errors import ConfigError

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
