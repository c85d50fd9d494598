"""The address: one ASGI application, which any ASGI server can run.

``/v1/...`` is the plain protocol, ``/ws``, ``/schema``, ``/metadata`` and ``/health`` OpenEnv's,
and ``/metrics`` is for Prometheus.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from llm_gym import __version__
from llm_gym.errors import ConfigError
from llm_gym.remote import wire
from llm_gym.serve import metrics, openenv, rows
from llm_gym.serve.guard import Guard
from llm_gym.serve.work import Work

_JSON = "application/json"
_LOOK_S = 5.0
_NO_SESSION = "HTTP requests have no session here: play over /ws, or /v1/rows"
Scope = dict[str, Any]


class _Refusal(Exception):
    """A request is answered with an error, and its connection closed."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class App:
    """Answers requests.

    Args:
        work: Plays the sessions.
        guard: Says who may ask.
        about: What ``/v1/about`` answers; ``metadata`` of OpenEnv is made of it too.
        description: What the environment is.
    """

    def __init__(
        self, work: Work, guard: Guard, about: dict[str, Any], description: str = ""
    ) -> None:
        self._work, self._guard, self._about = work, guard, about
        self._sessions, self._metrics = work.sessions, work.sessions.metrics
        name = about["env_id"]
        told = {"name": name, "description": description, "version": __version__}
        self._said: dict[str, Callable[[], tuple[bytes, str]]] = {
            wire.ABOUT: lambda: (_dump(about), _JSON),
            "/health": lambda: (_dump({"status": "healthy"}), _JSON),
            "/schema": lambda: (_dump(openenv.SCHEMA), _JSON),
            "/metadata": lambda: (_dump(told), _JSON),
            "/metrics": lambda: (
                self._metrics.text(len(self._sessions)).encode(),
                metrics.CONTENT_TYPE,
            ),
        }

    async def __call__(self, scope: Scope, receive: openenv.Receive, send: openenv.Send) -> None:
        """Answer one connection, as ASGI has it."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._lifespan(receive, send)

    # --- HTTP ----------------------------------------------------------------------------

    async def _http(self, scope: Scope, receive: openenv.Receive, send: openenv.Send) -> None:
        status, kind, close = 200, _JSON, False
        try:
            if refusal := self._guard.refusal(scope["headers"]):
                raise _Refusal(*refusal)
            body, kind = await self._answer(scope, receive)
        except _Refusal as problem:
            self._metrics.add("refused_total", str(problem.status))
            status, close, body = problem.status, True, _dump({"error": str(problem)})
        headers = [
            (b"content-type", kind.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        if close:  # the body of a refused request was not read
            headers.append((b"connection", b"close"))
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: openenv.Receive) -> tuple[bytes, str]:
        path, method = scope["path"], scope["method"]
        if path == wire.ROWS and method == "POST":
            return await self._rows(receive), _JSON
        if path in self._said and method == "GET":
            return self._said[path]()
        if path in ("/reset", "/step", "/state", "/mcp"):
            raise _Refusal(409, _NO_SESSION)
        raise _Refusal(404, "there is no such address")

    async def _rows(self, receive: openenv.Receive) -> bytes:
        loop = asyncio.get_running_loop()
        body = await self._read(receive)
        began = loop.time()
        self._metrics.add("requests_total", "rows")
        try:
            jobs = rows.read_jobs(body, self._sessions.limits)
        except ConfigError as problem:
            raise _Refusal(400, str(problem)) from None
        answers = await self._work.run(jobs)
        written = rows.write_answers(answers)
        self._metrics.took(loop.time() - began)
        return written

    async def _read(self, receive: openenv.Receive) -> bytes:
        """Return the body of a request, if it comes in time and is not too large."""
        limits, parts, size = self._sessions.limits, [], 0
        try:
            async with asyncio.timeout(limits.request_s):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _Refusal(400, "the request was cut off")
                    part: bytes = message.get("body", b"")
                    size += len(part)
                    if size > limits.body_bytes:
                        raise _Refusal(413, f"a request has at most {limits.body_bytes} bytes")
                    parts.append(part)
                    if not message.get("more_body"):
                        return parts[0] if len(parts) == 1 else b"".join(parts)
        except TimeoutError:
            raise _Refusal(408, f"a request must come within {limits.request_s:g} s") from None

    # --- WebSocket -----------------------------------------------------------------------

    async def _websocket(self, scope: Scope, receive: openenv.Receive, send: openenv.Send) -> None:
        await receive()
        refusal = self._guard.refusal(scope["headers"])
        if scope["path"] != "/ws" or refusal:
            self._metrics.add("refused_total", str(refusal[0] if refusal else 404))
            return await send({"type": "websocket.close", "code": 1008})
        await send({"type": "websocket.accept"})
        with suppress(OSError):  # the other end is gone
            answering = scope.get("extensions", {}).get(openenv.ANSWERING)
            await openenv.Talk(self._work, send).run(receive, answering)

    # --- from the beginning to the end -----------------------------------------------------

    async def _lifespan(self, receive: openenv.Receive, send: openenv.Send) -> None:
        await receive()
        look = asyncio.create_task(self._look())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        look.cancel()
        self._sessions.end_all()
        await send({"type": "lifespan.shutdown.complete"})

    async def _look(self) -> None:
        """End sessions that are idle, from time to time."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(_LOOK_S, self._sessions.limits.idle_s / 4))
            self._sessions.end_idle(loop.time())


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
