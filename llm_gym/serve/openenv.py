"""OpenEnv's protocol (openenv-core 0.3): a WebSocket is a session.

Its clients send ``{"type": "reset" | "step" | "state" | "close", "data": {...}}`` to ``/ws`` and
get ``observation``, ``state`` or ``error`` back. An action is ``{"message": text}``; an
observation has the text as ``message``, and beside it what Gymnasium tells apart and OpenEnv does
not: ``terminated``, ``truncated`` and ``info``.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

from llm_gym.remote import wire
from llm_gym.serve.sessions import Answer, Session
from llm_gym.serve.work import Work

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
ANSWERING = "llm_gym.answering"
"""The extension of a WebSocket's scope in which a server offers itself as ``Answering``."""
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_OBJECT = {"type": "object"}
SCHEMA = {
    "action": {
        "title": "Action",
        "type": "object",
        "properties": {"message": _TEXT, "metadata": _OBJECT},
        "required": ["message"],
        "additionalProperties": False,
    },
    "observation": {
        "title": "Observation",
        "type": "object",
        "properties": {
            "message": _TEXT,
            "system_prompt": _TEXT,
            "terminated": _FLAG,
            "truncated": _FLAG,
            "info": _OBJECT,
        },
        "required": ["message"],
    },
    "state": {
        "title": "State",
        "type": "object",
        "properties": {
            "episode_id": {"type": ["string", "null"]},
            "step_count": {"type": "integer"},
        },
    },
}
_CODES = {wire.FULL: "CAPACITY_REACHED", wire.LOST: "SESSION_ERROR", wire.TIMEOUT: "SESSION_ERROR"}
_PARTING_S = 5.0
_write = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Answering(Protocol):
    """A connection that can answer a message where it reads it, without waking a task for it."""

    answer: Callable[[str], str | None] | None


class Talk:
    """One WebSocket, from its first message to its last."""

    def __init__(self, work: Work, send: Send) -> None:
        self._work, self._send, self._sessions = work, send, work.sessions
        self._name = secrets.token_urlsafe(16)
        self._session: Session | None = None
        self._episode_id: str | None = None
        self._loop = asyncio.get_running_loop()

    async def run(self, receive: Receive, answering: Answering | None = None) -> None:
        """Answer until the client leaves, or has not been heard of for too long."""
        task = asyncio.current_task()
        assert task is not None
        self._session = self._sessions.open(self._name, self._loop.time())
        if self._session is None:
            return await self._refuse(receive)
        self._session.on_end = lambda: self._loop.call_soon(task.cancel)
        if answering is not None and self._work.in_loop(wire.STEP):
            answering.answer = self.answer_here
        try:
            while (message := await receive())["type"] == "websocket.receive":
                if not await self._answer(message.get("text") or ""):
                    return await self._send({"type": "websocket.close", "code": 1000})
        except asyncio.CancelledError:
            if not self._session.lost:
                raise
            await self._tell(_error("SESSION_ERROR", "the session was idle for too long"))
            await self._send({"type": "websocket.close", "code": 1001})
        finally:
            if answering is not None:
                answering.answer = None
            self._sessions.end(self._name, "disconnected")

    def answer_here(self, text: str) -> str | None:
        """Return the answer to one message, at once; None where it ends the talk."""
        asked = self._read(text)
        if asked is None:
            return None  # and is heard of again: the task that waits is to end it
        session = self._heard()
        if isinstance(asked, str):
            return asked
        job = (self._name, session.number + 1, *asked)
        return self._said(asked[0], self._work.play_here(job, session.used_at))

    async def _answer(self, text: str) -> bool:
        """Answer one message; return whether there may be more."""
        asked, session = self._read(text), self._heard()
        if isinstance(asked, tuple):
            (answer,) = await self._work.run([(self._name, session.number + 1, *asked)])
            asked = self._said(asked[0], answer)
        if asked is not None:
            await self._tell(asked)
        return asked is not None

    def _heard(self) -> Session:
        assert self._session is not None, "begun"
        self._sessions.metrics.add("requests_total", "openenv")
        self._session.used_at = self._loop.time()
        return self._session

    def _read(self, text: str) -> tuple[str, Any] | str | None:
        """Return what to play, or what to answer where nothing is to be; None at the end."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return _error("INVALID_JSON", "a message must be JSON")
        kind = message.get("type") if isinstance(message, dict) else None
        data = message.get("data", {}) if isinstance(message, dict) else {}
        if kind == "close":
            return None
        if not isinstance(data, dict):
            return _error("VALIDATION_ERROR", "data must be an object")
        if kind == "step":
            action = data.get("message")
            if not isinstance(action, str):
                return _error("VALIDATION_ERROR", 'an action must be {"message": text}')
            return wire.STEP, action
        if kind == "reset":
            return self._read_reset(data)
        if kind == "state":
            assert self._session is not None
            count = self._session.turns
            return _message("state", {"episode_id": self._episode_id, "step_count": count})
        return _error("UNKNOWN_TYPE", "type must be reset, step, state or close")

    def _read_reset(self, data: dict[str, Any]) -> tuple[str, Any] | str:
        seed, episode_id = data.pop("seed", None), data.pop("episode_id", None)
        fits = (seed is None or type(seed) is int) and isinstance(episode_id, str | None)
        if not fits:
            return _error("VALIDATION_ERROR", "seed must be a whole number")
        self._episode_id = episode_id[:255] if episode_id else None
        return wire.RESET, [seed, data or None]

    def _said(self, operation: str, answer: Answer) -> str:
        """Return what has come of an operation."""
        if isinstance(answer, dict):
            return _error(_CODES.get(answer["error"], "EXECUTION_ERROR"), answer["message"])
        if operation == wire.STEP:
            message, reward, terminated, truncated, info = answer
            ends = {"terminated": terminated, "truncated": truncated}
            seen = {"message": message, **ends, "info": info}
        else:
            self._episode_id = self._episode_id or answer[2]
            seen = {"message": answer[0], "system_prompt": answer[3], "info": answer[1]}
            reward, terminated, truncated = None, False, False
            seen |= {"terminated": False, "truncated": False}
        done = terminated or truncated
        return _message("observation", {"observation": seen, "reward": reward, "done": done})

    async def _refuse(self, receive: Receive) -> None:
        most = self._sessions.limits.sessions
        await self._tell(_error("CAPACITY_REACHED", f"all {most} sessions are in use"))
        with suppress(TimeoutError):  # their client reads what it is told after it has asked
            async with asyncio.timeout(_PARTING_S):
                await receive()
        await self._send({"type": "websocket.close", "code": 1013})

    async def _tell(self, text: str) -> None:
        await self._send({"type": "websocket.send", "text": text})


def _message(kind: str, data: dict[str, Any]) -> str:
    return _write({"type": kind, "data": data})


def _error(code: str, message: str) -> str:
    return _message("error", {"message": message, "code": code})
