"""OpenEnv's protocol (openenv 0.10): a WebSocket is a session.

Its clients send ``{"type": "reset" | "step" | "state" | "close", "data": {...}}`` to ``/ws`` and
get ``observation``, ``state`` or ``error`` back. An action is ``{"message": text}``; an observation
has the text as ``message``, and ``terminated``, ``truncated`` and ``info``, for which OpenEnv has
no fields.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from llm_gym.server import protocol
from llm_gym.server.sessions import Answer, EnvSession, SessionRunner

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

_TEXT, _FLAG, _OBJECT = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
_ENDS = {"terminated": _FLAG, "truncated": _FLAG}
_STATE = {"episode_id": {"type": ["string", "null"]}, "step_count": {"type": "integer"}}


def _record(title: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {**_OBJECT, "title": title, "properties": properties, "required": [*required]}


SCHEMA = {
    "action": _record("TextAction", {"message": _TEXT, "metadata": _OBJECT}, "message")
    | {"additionalProperties": False},
    "observation": _record(
        "TextObservation",
        {"message": _TEXT, "system_prompt": _TEXT, **_ENDS, "info": _OBJECT},
        "message",
    ),
    "state": _record("State", _STATE),
}
_CODES = {
    protocol.FULL: "CAPACITY_REACHED",
    protocol.LOST: "SESSION_ERROR",
    protocol.TIMEOUT: "SESSION_ERROR",
}
_PARTING_S = 5.0
_write = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class WebSocketSession:
    """One WebSocket, from its first message to its last."""

    def __init__(self, runner: SessionRunner, socket: WebSocket) -> None:
        self._runner, self._socket, self._sessions = runner, socket, runner.sessions
        self._name = secrets.token_urlsafe(16)
        self._session: EnvSession | None = None
        self._episode_id: str | None = None
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Answer until the client leaves, or its session is idle for too long."""
        task = asyncio.current_task()
        assert task is not None
        player = self._socket.client.host if self._socket.client else ""
        self._session = self._sessions.open(self._name, self._loop.time(), player)
        if self._session is None:
            return await self._refuse()
        self._session.on_end = lambda: self._loop.call_soon(task.cancel)
        try:
            while (message := await self._socket.receive())["type"] == "websocket.receive":
                answer = await self._answer(message.get("text") or "")
                if answer is None:
                    return await self._socket.close(1000)
                await self._socket.send_text(answer)
                await asyncio.sleep(0)  # other sessions get their turn
        except asyncio.CancelledError:
            if not self._session.lost:
                raise
            reason = "the session was idle for too long, or is needed"
            await self._socket.send_text(_error("SESSION_ERROR", reason))
            await self._socket.close(1001)
        finally:
            self._sessions.end(self._name, "disconnected")

    async def _answer(self, text: str) -> str | None:
        """Return the answer to one message; None if it closes the session."""
        assert self._session is not None
        self._sessions.counts["requests"] += 1
        self._session.used_at = self._loop.time()
        request = self._read(text)
        if not isinstance(request, tuple):
            return request
        job = (self._name, self._session.number + 1, *request)
        (answer,) = await self._runner.run([job])
        return self._format(request[0], answer)

    def _read(self, text: str) -> tuple[str, Any] | str | None:
        """Parse a message: an operation to run, an answer to send, or None for close."""
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
            return protocol.STEP, action
        if kind == "reset":
            return self._read_reset(data)
        if kind == "state":
            assert self._session is not None
            count = self._session.turns
            return _message("state", {"episode_id": self._episode_id, "step_count": count})
        return _error("UNKNOWN_TYPE", "type must be reset, step, state or close")

    def _read_reset(self, data: dict[str, Any]) -> tuple[str, Any] | str:
        seed, episode_id = data.pop("seed", None), data.pop("episode_id", None)
        if not ((seed is None or type(seed) is int) and isinstance(episode_id, str | None)):
            return _error("VALIDATION_ERROR", "seed must be a whole number")
        self._episode_id = episode_id[:255] if episode_id else None
        return protocol.RESET, [seed, data or None]

    def _format(self, operation: str, answer: Answer) -> str:
        if isinstance(answer, dict):
            return _error(_CODES.get(answer["error"], "EXECUTION_ERROR"), answer["message"])
        if operation == protocol.STEP:
            message, reward, terminated, truncated, info = answer
            observation = {"message": message}
        else:
            message, info, instance_id, system_prompt = answer
            observation = {"message": message, "system_prompt": system_prompt}
            reward, terminated, truncated = None, False, False
            self._episode_id = self._episode_id or instance_id
        observation |= {"terminated": terminated, "truncated": truncated, "info": info}
        done = terminated or truncated
        return _message("observation", {"observation": observation, "reward": reward, "done": done})

    async def _refuse(self) -> None:
        most = self._sessions.limits.sessions
        await self._socket.send_text(_error("CAPACITY_REACHED", f"all {most} sessions are in use"))
        with suppress(TimeoutError):  # OpenEnv's client reads only after it has sent something
            async with asyncio.timeout(_PARTING_S):
                await self._socket.receive()
        await self._socket.close(1013)


def _message(kind: str, data: dict[str, Any]) -> str:
    return _write({"type": kind, "data": data})


def _error(code: str, message: str) -> str:
    return _message("error", {"message": message, "code": code})
