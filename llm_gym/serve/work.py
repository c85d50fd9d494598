"""Where operations are played: in the event loop, or in threads.

A step of a light game takes microseconds, less than handing it to a thread, so such games are
played where the request is read. What may take long, somebody else's environment or a solver, is
played in threads, with a time limit. A thread that hangs cannot be ended: it is left behind,
another takes its place, and its session is lost; the others go on.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from llm_gym.remote import wire
from llm_gym.serve.sessions import Answer, Job, Session, Sessions

_AT_A_TIME = 128
"""Rows that are played before others get their turn."""
_MOST_LEFT_BEHIND = 64


class Threads:
    """Threads that may be left behind; as daemons, they never hold up an exit."""

    def __init__(self, count: int) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._left_behind: set[int] = set()
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        threading.Thread(target=self._work, name="llm_gym serve", daemon=True).start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            if (me := threading.get_ident()) in self._left_behind:  # another took our place
                self._left_behind.discard(me)
                return

    def submit(self, task: Callable[[], object]) -> None:
        """Have ``task`` done soon; it must not raise."""
        self._tasks.put(task)

    @property
    def left_behind(self) -> int:
        """How many hang."""
        return len(self._left_behind)

    def leave_behind(self, thread: int) -> None:
        """Replace a thread that hangs, by its identity."""
        self._left_behind.add(thread)
        self._start()


class Work:
    """Plays jobs.

    Args:
        sessions: Whose jobs they are.
        in_loop: Whether steps and resets are played in the event loop.
        threads: How many threads play the rest.
    """

    def __init__(self, sessions: Sessions, *, in_loop: bool, threads: int) -> None:
        self.sessions, self._in_loop = sessions, in_loop
        self._count = threads
        self._threads: Threads | None = None

    def in_loop(self, operation: str) -> bool:
        """Return whether ``operation`` takes so little that no thread is needed."""
        return self._in_loop and operation != wire.CALL

    def play_here(self, job: Job, now: float) -> Answer:
        """Play one job in the event loop."""
        session, answer = self.sessions.accept(job, now)
        if session is not None:
            answer = self.sessions.play(session, job[2], job[3])
            self.sessions.settle(session, job, answer, now)
        if type(answer) is dict:
            self.sessions.metrics.add("errors_total", answer["error"])
        return answer

    async def run(self, jobs: Sequence[Job]) -> list[Answer]:
        """Play jobs of many sessions, those of each in order."""
        loop = asyncio.get_running_loop()
        if all(self.in_loop(job[2]) for job in jobs):
            answers: list[Answer] = []
            for first in range(0, len(jobs), _AT_A_TIME):
                if first:
                    await asyncio.sleep(0)
                now = loop.time()
                answers += [self.play_here(job, now) for job in jobs[first : first + _AT_A_TIME]]
            return answers
        lines: dict[str, list[int]] = {}
        for at, job in enumerate(jobs):
            lines.setdefault(job[0], []).append(at)
        answered: list[Any] = [None] * len(jobs)
        await asyncio.gather(*(self._line(jobs, rows, answered) for rows in lines.values()))
        return answered

    async def _line(self, jobs: Sequence[Job], rows: list[int], answered: list[Any]) -> None:
        for at in rows:
            answered[at] = await self._one(jobs[at])

    async def _one(self, job: Job) -> Answer:
        loop = asyncio.get_running_loop()
        session, answer = self.sessions.accept(job, loop.time())
        if session is not None:
            answer = await self._in_thread(session, job)
        if isinstance(answer, dict):
            self.sessions.metrics.add("errors_total", answer["error"])
        return answer

    async def _in_thread(self, session: Session, job: Job) -> Answer:
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = Threads(self._count)
        if self._threads.left_behind >= _MOST_LEFT_BEHIND:
            answer = wire.error(wire.FAILED, "the environment hangs too often; restart the server")
            self.sessions.settle(session, job, answer, loop.time())
            return answer
        done: asyncio.Future[Answer] = loop.create_future()
        by: list[int] = []  # the thread that has begun it

        def task() -> None:
            by.append(threading.get_ident())
            answer = self.sessions.play(session, job[2], job[3])
            with suppress(RuntimeError):  # the loop is closed: the server has ended before us
                loop.call_soon_threadsafe(finish, answer)

        def finish(answer: Answer) -> None:
            self.sessions.settle(session, job, answer, loop.time())
            if not done.done():
                done.set_result(answer)

        self._threads.submit(task)
        limit = self.sessions.limits.step_s
        while not by:  # waiting in line is nobody's fault
            finished, _ = await asyncio.wait({done}, timeout=limit)
            if finished:
                return done.result()
        finished, _ = await asyncio.wait({done}, timeout=limit)
        if finished:
            return done.result()
        self.sessions.end(job[0], "timeout")
        self._threads.leave_behind(by[0])
        return wire.error(wire.TIMEOUT, f"the environment took more than {limit:g} s")
