"""The environments of a server, and how their operations are run.

``Sessions.accept`` and ``settle`` run in the event loop; ``play`` may run in a thread, because it
touches only its own session. Times are arguments. A step of a light game takes microseconds, less
than a switch to a thread, so ``SessionRunner`` plays such games in the event loop. All others run
in threads with a time limit. A thread that hangs is replaced and its session is lost; the other
sessions go on.
"""

from __future__ import annotations

import asyncio
import queue
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from llm_gym.core.errors import ConfigError, LLMGymError, error_words
from llm_gym.core.infos import check_options
from llm_gym.core.outcome import StopReason
from llm_gym.episodes.encoding import encode
from llm_gym.episodes.play import begin, play_step
from llm_gym.server import protocol


def _limit(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class ServerLimits:
    """Limits of a server; beyond them a request is refused or a session ended.

    >>> ServerLimits(sessions=0)
    Traceback (most recent call last):
    llm_gym.core.errors.ConfigError: sessions must be above 0, got 0
    """

    sessions: int = _limit(4096, "sessions at the same time")
    connections: int = _limit(4096, "connections at the same time")
    body_bytes: int = _limit(16 << 20, "bytes of a request, or of a WebSocket message")
    rows: int = _limit(4096, "rows of a request")
    episode_turns: int = _limit(10_000, "steps after which an episode is truncated")
    idle_s: float = _limit(600.0, "seconds without a request after which a session ends")
    step_s: float = _limit(60.0, "maximum seconds of a step in a thread")
    request_s: float = _limit(30.0, "maximum seconds to receive a request")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ConfigError(f"{name} must be above 0, got {value}")


Job = tuple[str, int, str, Any]
"""A row of ``protocol``: session, number, operation, argument."""
Answer = list[Any] | dict[str, str]
_NAME = re.compile(r"[A-Za-z0-9_-]{16,64}")


@dataclass(slots=True, eq=False)
class EnvSession:
    """One environment and the progress of its client."""

    used_at: float
    player: str = ""
    """Address of the client."""
    env: gym.Env[str, str] | None = None
    number: int = 0
    answer: Answer = field(default_factory=list)
    turns: int = 0
    busy: bool = False
    lost: bool = False
    on_end: Callable[[], object] | None = None
    """Called when the session ends because its client is silent."""


class Sessions:
    """All sessions of a server; ``make`` builds their environments."""

    def __init__(
        self,
        make: Callable[[], gym.Env[str, str]],
        limits: ServerLimits,
        players: Sequence[str] = (),
    ) -> None:
        self.limits, self.players = limits, frozenset(players)
        self.counts: Counter[str] = Counter()
        """What has happened, for ``/health``."""
        self._make = make
        self._table: dict[str, EnvSession] = {}

    def __len__(self) -> int:
        return len(self._table)

    # --- in the event loop ---------------------------------------------------------------

    def open(self, name: str, now: float, player: str = "") -> EnvSession | None:
        """Begin a session; return None if there are too many.

        No client can block others: the client with the most sessions loses its longest idle one.
        """
        if len(self._table) >= self.limits.sessions and not self._make_room(player):
            return None
        session = self._table[name] = EnvSession(now, player)
        self.counts["sessions opened"] += 1
        return session

    def _make_room(self, player: str) -> bool:
        held = Counter(session.player for session in self._table.values())
        most, count = held.most_common(1)[0]
        theirs = [
            (one.used_at, name)
            for name, one in self._table.items()
            if one.player == most and not one.busy
        ]
        if count <= held[player] + 1 or not theirs:
            return False
        self.end(min(theirs)[1], "displaced")
        return True

    def accept(self, job: Job, now: float, player: str = "") -> tuple[EnvSession | None, Answer]:
        """Return the session that plays ``job``; or None and the answer."""
        name, number, operation, _ = job
        session = self._table.get(name)
        if session is None:
            if operation == protocol.CLOSE:
                return None, []
            if operation != protocol.RESET or number != 1:
                message = "there is no such session; begin another"
                return None, protocol.error(protocol.LOST, message)
            if not _NAME.fullmatch(name):
                message = "a session's name must have 16 to 64 letters, digits, - or _"
                return None, protocol.error(protocol.REFUSED, message)
            session = self.open(name, now, player)
            if session is None:
                message = f"all {self.limits.sessions} sessions are in use; close some"
                return None, protocol.error(protocol.FULL, message)
        session.used_at = now
        if session.busy:
            return None, protocol.error(protocol.BUSY, "the session is still at its last operation")
        if number == session.number:
            return None, session.answer
        if number != session.number + 1:
            message = f"the next operation has the number {session.number + 1}, got {number}"
            return None, protocol.error(protocol.ORDER, message)
        session.busy = True
        return session, []

    def settle(self, session: EnvSession, job: Job, answer: Answer, now: float) -> None:
        name, number, operation, _ = job
        session.busy, session.used_at = False, now
        session.number, session.answer = number, answer
        if session.lost:
            _close(session)
        elif operation == protocol.CLOSE:
            self.end(name, "closed")
        elif operation == protocol.RESET:
            self.counts["episodes"] += 1
        elif operation != protocol.CALL:
            self.counts["steps"] += 1

    def end(self, name: str, reason: str) -> None:
        """End a session; if it is busy, ``settle`` closes it."""
        session = self._table.pop(name, None)
        if session is None:
            return
        self.counts[f"sessions {reason}"] += 1
        session.lost = True
        if session.on_end is not None and reason in ("idle", "displaced"):
            session.on_end()
        if not session.busy:
            _close(session)

    def end_idle(self, now: float) -> None:
        before = now - self.limits.idle_s
        for name, session in list(self._table.items()):
            if session.used_at < before and not session.busy:
                self.end(name, "idle")

    def end_all(self) -> None:
        for name in list(self._table):
            self.end(name, "shutdown")

    # --- in any thread -------------------------------------------------------------------

    def play(self, session: EnvSession, operation: str, argument: Any) -> Answer:
        """Run one operation; an exception becomes an error answer."""
        try:
            match operation:
                case protocol.RESET:
                    return self._reset(session, *argument)
                case protocol.STEP:
                    return self._step(session, argument)
                case protocol.CALL:
                    return self._call(session, argument)
            return []  # close
        except (LLMGymError, gym.error.Error, NotImplementedError) as problem:
            return protocol.error(protocol.REFUSED, str(problem) or type(problem).__name__)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - others' code raises anything
            return protocol.error(protocol.FAILED, error_words(problem))

    def _reset(
        self, session: EnvSession, seed: int | None, options: dict[str, Any] | None
    ) -> Answer:
        check_options(options)
        if session.env is None:
            session.env = self._make()
        start = begin(session.env, seed, options)
        session.turns = 0
        observation = protocol.text(start.observation)
        return [observation, encode(start.info), start.instance_id, start.system_prompt]

    def _step(self, session: EnvSession, action: str) -> Answer:
        observation, reward, terminated, truncated, info = play_step(_running_env(session), action)
        session.turns += 1
        if session.turns >= self.limits.episode_turns and not (terminated or truncated):
            truncated, info = True, {**info, "stop_reason": StopReason.MAX_STEPS}
        return [
            protocol.text(observation),
            encode(float(reward)),
            bool(terminated),
            bool(truncated),
            encode(info),
        ]

    def _call(self, session: EnvSession, name: str) -> Answer:
        player = protocol.CALLS.get(name)
        if player not in self.players:
            raise gym.error.Error(f"this server does not let players ask for {name}")
        value = _running_env(session).get_wrapper_attr(name)()
        return [encode(float(value)) if name == protocol.VALUE else protocol.texts(value)]


def _running_env(session: EnvSession) -> gym.Env[str, str]:
    if session.env is None:
        raise gym.error.ResetNeeded("the episode has not begun; reset before you step")
    return session.env


def _close(session: EnvSession) -> None:
    env, session.env, session.answer = session.env, None, []
    if env is not None:
        with suppress(Exception, SystemExit):  # it is over, whatever the environment says
            env.close()


_MOST_ABANDONED = 64


class ReplaceableThreads:
    """Threads that can be abandoned; they are daemons, so they never delay an exit."""

    def __init__(self, count: int) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self.abandoned: set[int] = set()
        """Threads that hang, by identity."""
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        threading.Thread(target=self._work, name="llm_gym serve", daemon=True).start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            if (me := threading.get_ident()) in self.abandoned:  # another took our place
                self.abandoned.discard(me)
                return

    def submit(self, task: Callable[[], object]) -> None:
        """Queue a task, which must not raise."""
        self._tasks.put(task)

    def replace(self, thread: int) -> None:
        """Start another thread in place of one that hangs."""
        self.abandoned.add(thread)
        self._start()


class SessionRunner:
    """Plays jobs: in the event loop if ``in_loop`` allows it, otherwise in threads."""

    def __init__(self, sessions: Sessions, *, in_loop: bool, threads: int) -> None:
        self.sessions, self._in_loop = sessions, in_loop
        self._count = threads
        self._threads: ReplaceableThreads | None = None

    def in_loop(self, operation: str) -> bool:
        return self._in_loop and operation != protocol.CALL

    def play_here(self, job: Job, now: float, player: str = "") -> Answer:
        session, answer = self.sessions.accept(job, now, player)
        if session is not None:
            answer = self.sessions.play(session, job[2], job[3])
            self.sessions.settle(session, job, answer, now)
        return answer

    async def run(self, jobs: Sequence[Job], player: str = "") -> list[Answer]:
        """Play jobs in order; between two jobs, other requests get their turn."""
        answers: list[Answer] = []
        for job in jobs:
            if answers:
                await asyncio.sleep(0)
            answers.append(await self._one(job, player))
            if isinstance(answers[-1], dict):
                self.sessions.counts[f"errors {answers[-1]['error']}"] += 1
        return answers

    async def _one(self, job: Job, player: str) -> Answer:
        now = asyncio.get_running_loop().time()
        if self.in_loop(job[2]):
            return self.play_here(job, now, player)
        session, answer = self.sessions.accept(job, now, player)
        return answer if session is None else await self._in_thread(session, job)

    async def _in_thread(self, session: EnvSession, job: Job) -> Answer:
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ReplaceableThreads(self._count)
        if len(self._threads.abandoned) >= _MOST_ABANDONED:
            answer = protocol.error(protocol.FAILED, "the environment hangs too often; restart")
            self.sessions.settle(session, job, answer, loop.time())
            return answer
        done: asyncio.Future[Answer] = loop.create_future()
        thread: list[int] = []  # the thread that runs it; empty while it is in the queue

        def task() -> None:
            thread.append(threading.get_ident())
            answer = self.sessions.play(session, job[2], job[3])
            with suppress(RuntimeError):  # the loop is closed: the server has ended before us
                loop.call_soon_threadsafe(finish, answer)

        def finish(answer: Answer) -> None:
            self.sessions.settle(session, job, answer, loop.time())
            if not done.done():
                done.set_result(answer)

        self._threads.submit(task)
        limit, is_running = self.sessions.limits.step_s, False
        while not is_running:  # time in the queue does not count
            is_running = bool(thread)
            finished, _ = await asyncio.wait({done}, timeout=limit)
            if finished:
                return done.result()
        self.sessions.end(job[0], "timeout")
        self._threads.replace(thread[0])
        return protocol.error(protocol.TIMEOUT, f"the environment took more than {limit:g} s")
