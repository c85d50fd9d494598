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
from typing import Any

from llm_gym.remote import wire
from llm_gym.serve.sessions import Answer, Session
from llm_gym.serve.work import Work

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
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


class Talk:
    """One WebSocket, from its first message to its last."""

    def __init__(self, work: Work, send: Send) -> None:
        self._work, self._send, self._sessions = work, send, work.sessions
        self._name = secrets.token_urlsafe(16)
        self._session: Session | None = None
        self._episode_id: str | None = None

    async def run(self, receive: Receive) -> None:
        """Answer until the client leaves, or has not been heard of for too long."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._session = self._sessions.open(self._name, loop.time())
        if self._session is None:
            most = self._sessions.limits.sessions
            await self._fail("CAPACITY_REACHED", f"all {most} sessions are in use")
            with suppress(TimeoutError):  # their client reads what it is told after it has asked
                async with asyncio.timeout(_PARTING_S):
                    await receive()
            return await self._send({"type": "websocket.close", "code": 1013})
        self._session.on_end = lambda: loop.call_soon(task.cancel)
        try:
            while (message := await receive())["type"] == "websocket.receive":
                self._sessions.metrics.add("requests_total", "openenv")
                self._session.used_at = loop.time()
                if not await self._answer(message.get("text") or ""):
                    return await self._send({"type": "websocket.close", "code": 1000})
        except asyncio.CancelledError:
            if not self._session.lost:
                raise
            await self._fail("SESSION_ERROR", "the session was idle for too long")
            await self._send({"type": "websocket.close", "code": 1001})
        finally:
            self._sessions.end(self._name, "disconnected")

    async def _answer(self, text: str) -> bool:
        """Answer one message; return whether there may be more."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            await self._fail("INVALID_JSON", "a message must be JSON")
            return True
        kind = message.get("type") if isinstance(message, dict) else None
        data = message.get("data", {}) if isinstance(message, dict) else {}
        if kind == "close":
            return False
        if not isinstance(data, dict):
            await self._fail("VALIDATION_ERROR", "data must be an object")
        elif kind == "step":
            await self._step(data)
        elif kind == "reset":
            await self._reset(data)
        elif kind == "state":
            await self._tell("state", self._state())
        else:
            await self._fail("UNKNOWN_TYPE", "type must be reset, step, state or close")
        return True

    async def _step(self, data: dict[str, Any]) -> None:
        action = data.get("message")
        if not isinstance(action, str):
            return await self._fail("VALIDATION_ERROR", 'an action must be {"message": text}')
        answer = await self._play(wire.STEP, action)
        if isinstance(answer, dict):
            return await self._fail(
                _CODES.get(answer["error"], "EXECUTION_ERROR"), answer["message"]
            )
        message, reward, terminated, truncated, info = answer
        ends = {"terminated": terminated, "truncated": truncated}
        observation = {"message": message, **ends, "info": info}
        done = terminated or truncated
        await self._tell(
            "observation", {"observation": observation, "reward": reward, "done": done}
        )

    async def _reset(self, data: dict[str, Any]) -> None:
        seed, episode_id = data.pop("seed", None), data.pop("episode_id", None)
        fits = (seed is None or type(seed) is int) and isinstance(episode_id, str | None)
        if not fits:
            return await self._fail("VALIDATION_ERROR", "seed must be a whole number")
        answer = await self._play(wire.RESET, [seed, data or None])
        if isinstance(answer, dict):
            return await self._fail(
                _CODES.get(answer["error"], "EXECUTION_ERROR"), answer["message"]
            )
        self._episode_id = episode_id[:255] if episode_id else answer[2]
        observation = {"message": answer[0], "system_prompt": answer[3], "info": answer[1]}
        observation |= {"terminated": False, "truncated": False}
        await self._tell("observation", {"observation": observation, "reward": None, "done": False})

    def _state(self) -> dict[str, Any]:
        assert self._session is not None
        return {"episode_id": self._episode_id, "step_count": self._session.turns}

    async def _play(self, operation: str, argument: Any) -> Answer:
        assert self._session is not None
        job = (self._name, self._session.number + 1, operation, argument)
        if self._work.in_loop(operation):
            return self._work.play_here(job, self._session.used_at)
        (answer,) = await self._work.run([job])
        return answer

    async def _tell(self, kind: str, data: dict[str, Any]) -> None:
        await self._send({"type": "websocket.send", "text": _write({"type": kind, "data": data})})

    async def _fail(self, code: str, message: str) -> None:
        await self._tell("error", {"message": message, "code": code})
