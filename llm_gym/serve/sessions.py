"""The environments that are being played, and what one operation does to one of them.

Nothing here knows of sockets or clocks: the time is an argument. ``accept`` and ``settle`` run in
the event loop; ``play``, between them, may run in a thread, because it touches its session alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym

from llm_gym.core.outcome import StopReason
from llm_gym.episodes.describe import begin
from llm_gym.errors import LLMGymError
from llm_gym.remote import wire
from llm_gym.serve.limits import Limits
from llm_gym.serve.metrics import Metrics

Job = tuple[str, int, str, Any]
"""Session, number, operation, argument: a row of ``wire``."""
Answer = list[Any] | dict[str, str]
OPTIONS = ("split", "difficulty")
"""Options of ``reset`` that a request may give."""
_NAME = re.compile(r"[A-Za-z0-9_-]{16,64}")


class Session:
    """One environment, and where its player has got to."""

    __slots__ = ("answer", "busy", "env", "episode", "lost", "number", "on_end", "turns", "used_at")

    def __init__(self, now: float) -> None:
        self.env: gym.Env[str, str] | None = None
        self.number = 0
        self.answer: Answer = []
        self.turns = self.episode = 0
        self.used_at = now
        self.busy = self.lost = False
        self.on_end: Callable[[], object] | None = None
        """Called when the session is ended because its player says nothing."""


class Sessions:
    """All of them.

    Args:
        make: Builds the environment that is served.
        limits: How many there may be, and for how long.
        players: Those of ``wire.PLAYERS`` that may be asked for advice.
        options: Options of ``reset`` that may be given.
    """

    def __init__(
        self,
        make: Callable[[], gym.Env[str, str]],
        limits: Limits,
        players: Sequence[str] = (),
        options: Sequence[str] = OPTIONS,
    ) -> None:
        self.limits, self.players, self.options = limits, frozenset(players), frozenset(options)
        self.metrics = Metrics()
        self._make = make
        self._table: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._table)

    # --- in the event loop ---------------------------------------------------------------

    def open(self, name: str, now: float) -> Session | None:
        """Begin a session; None where there are too many."""
        if len(self._table) >= self.limits.sessions:
            return None
        session = self._table[name] = Session(now)
        self.metrics.add("sessions_opened_total")
        return session

    def accept(self, job: Job, now: float) -> tuple[Session | None, Answer]:
        """Return the session that is to play ``job``, or None and the answer."""
        name, number, operation, _ = job
        session = self._table.get(name)
        if session is None:
            if operation == wire.CLOSE:
                return None, []
            if operation != wire.RESET or number != 1:
                return None, wire.error(wire.LOST, "there is no such session; begin another")
            if not _NAME.fullmatch(name):
                return None, wire.error(wire.REFUSED, "a session's name has 16 to 64 signs")
            session = self.open(name, now)
            if session is None:
                most = self.limits.sessions
                return None, wire.error(wire.FULL, f"all {most} sessions are in use; close some")
        session.used_at = now
        if session.busy:
            return None, wire.error(wire.BUSY, "the session is still at its last operation")
        if number == session.number:
            return None, session.answer
        if number != session.number + 1:
            told = f"the next operation has the number {session.number + 1}, got {number}"
            return None, wire.error(wire.ORDER, told)
        session.busy = True
        return session, []

    def settle(self, session: Session, job: Job, answer: Answer, now: float) -> None:
        """Note that ``job`` was played, with ``answer``."""
        name, number, operation, _ = job
        session.busy, session.used_at = False, now
        session.number, session.answer = number, answer
        if session.lost:
            _close(session)
        elif operation == wire.CLOSE:
            self.end(name, "closed")
        elif operation == wire.RESET:
            self.metrics.add("episodes_total")
        elif operation != wire.CALL:
            self.metrics.add("steps_total")

    def end(self, name: str, reason: str) -> None:
        """End a session; one that is at work is closed by ``settle``."""
        session = self._table.pop(name, None)
        if session is None:
            return
        self.metrics.add("sessions_closed_total", reason)
        session.lost = True
        if session.on_end is not None and reason == "idle":
            session.on_end()
        if not session.busy:
            _close(session)

    def end_idle(self, now: float) -> None:
        """End those that have not been heard of for too long."""
        before = now - self.limits.idle_s
        silent = [name for name, one in self._table.items() if one.used_at < before]
        for name in silent:
            if not self._table[name].busy:
                self.end(name, "idle")

    def end_all(self) -> None:
        """End all of them."""
        for name in list(self._table):
            self.end(name, "shutdown")

    # --- in any thread -------------------------------------------------------------------

    def play(self, session: Session, operation: str, argument: Any) -> Answer:
        """Do one operation; whatever goes wrong is an answer."""
        try:
            return self._plays[operation](self, session, argument)
        except (LLMGymError, gym.error.Error, NotImplementedError) as problem:
            return wire.error(wire.REFUSED, str(problem) or type(problem).__name__)
        except Exception as problem:  # noqa: BLE001 - an environment may raise anything
            return wire.error(wire.FAILED, f"{type(problem).__name__}: {problem}")

    def _reset(self, session: Session, argument: Any) -> Answer:
        seed, options = argument
        if unknown := (options or {}).keys() - self.options:
            known = ", ".join(sorted(self.options)) or "nothing"
            raise gym.error.Error(f"options may hold {known} here, got {sorted(unknown)}")
        if session.env is None:
            session.env = self._make()
        beginning = begin(session.env, seed, options)
        session.turns, session.episode = 0, session.episode + 1
        info, observation = wire.pack_info(beginning.info), _text(beginning.observation)
        return [observation, info, beginning.instance_id, beginning.system_prompt]

    def _step(self, session: Session, action: str) -> Answer:
        observation, reward, terminated, truncated, info = _begun(session).step(action)
        session.turns += 1
        if session.turns >= self.limits.episode_turns and not (terminated or truncated):
            truncated, info = True, {**info, "stop_reason": StopReason.MAX_STEPS}
        return [
            _text(observation),
            wire.pack_number(reward),
            bool(terminated),
            bool(truncated),
            wire.pack_info(info),
        ]

    def _step_and_reset(self, session: Session, action: str) -> Answer:
        played: Any = self._step(session, action)
        if not (played[2] or played[3]):
            return list(played)
        observation, info = _begun(session).reset()
        session.turns, session.episode = 0, session.episode + 1
        final = {"final_obs": played[0], "final_info": wire.unpack_info(played[4])}
        return [_text(observation), *played[1:4], wire.pack_info({**final, **info})]

    def _call(self, session: Session, name: str) -> Answer:
        player = wire.CALLS.get(name)
        if player not in self.players:
            raise gym.error.Error(f"this server does not let players ask for {name}")
        value = _begun(session).get_wrapper_attr(name)()
        return [list(value) if isinstance(value, tuple) else value]

    def _closed(self, session: Session, _: Any) -> Answer:
        return []

    _plays: Mapping[str, Callable[[Sessions, Session, Any], Answer]] = {
        wire.RESET: _reset,
        wire.STEP: _step,
        wire.STEP_AND_RESET: _step_and_reset,
        wire.CALL: _call,
        wire.CLOSE: _closed,
    }


def _begun(session: Session) -> gym.Env[str, str]:
    if session.env is None:
        raise gym.error.ResetNeeded("the episode has not begun; reset before you step")
    return session.env


def _text(observation: Any) -> str:
    if not isinstance(observation, str):
        raise TypeError(f"an observation must be a str, got {type(observation).__name__}")
    return observation


def _close(session: Session) -> None:
    env, session.env, session.answer = session.env, None, []
    if env is not None:
        with suppress(Exception):  # it is over, whatever the environment says
            env.close()
