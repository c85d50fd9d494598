"""The HTTP application: access control, the row protocol, and OpenEnv's addresses.

``/v1/...`` is the row protocol; ``/ws``, ``/schema``, ``/metadata`` and ``/health`` are OpenEnv's,
and ``/health`` also returns counters. Only this module imports starlette.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import gymnasium as gym
from gymnasium import spaces
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketClose, WebSocketDisconnect

from llm_gym import __version__
from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import find_attribute, find_system_prompt
from llm_gym.core.loopback import is_loopback, is_own, own_hosts, same_secret
from llm_gym.server import openenv, protocol
from llm_gym.server.sessions import Job, ServerLimits, SessionRunner, Sessions

_SHORTEST_TOKEN = 16
_IDLE_CHECK_S = 5.0
_NO_SESSION = "HTTP requests have no session here: play over /ws, or /v1/rows"
_write = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def make_app(
    runner: SessionRunner, guard: Guard, about: dict[str, Any], description: str = ""
) -> Starlette:
    """Return the ASGI application; ``about`` is the answer of ``/v1/about``."""
    sessions = runner.sessions
    metadata = {"name": about["env_id"], "description": description, "version": __version__}
    constants = {protocol.ABOUT: about, "/schema": openenv.SCHEMA, "/metadata": metadata}

    async def rows(request: Request) -> Response:
        player = request.client.host if request.client else ""
        body = await _body(request, sessions.limits)
        sessions.counts["requests"] += 1
        try:
            jobs = read_jobs(body, sessions.limits)
        except ConfigError as problem:
            raise HTTPException(400, str(problem)) from None
        return _json(_write({"rows": await runner.run(jobs, player)}))

    async def health(_: Request) -> Response:
        counts = {"sessions": len(sessions), **sessions.counts}
        return _json(_write({"status": "healthy", "counts": counts}))

    async def no_session(_: Request) -> Response:
        raise HTTPException(409, _NO_SESSION)

    async def websocket(socket: WebSocket) -> None:
        await socket.accept()
        with suppress(WebSocketDisconnect):
            await openenv.WebSocketSession(runner, socket).run()

    async def refuse(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _refusal(sessions, error.status_code, error.detail)

    routes: list[BaseRoute] = [
        Route(protocol.ROWS, rows, methods=["POST"]),
        Route("/health", health),
        WebSocketRoute("/ws", websocket),
    ]
    for path, answer in constants.items():
        routes.append(Route(path, _json(_write(answer)), methods=["GET"]))
    for path in ("/reset", "/step", "/state", "/mcp"):
        routes.append(Route(path, no_session, methods=["GET", "POST"]))
    app = Starlette(
        routes=routes,
        middleware=[Middleware(_Guarded, guard=guard, sessions=sessions)],
        exception_handlers={HTTPException: refuse},
        lifespan=_lifespan(sessions),
    )
    app.router.redirect_slashes = False
    return app


def _json(body: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, "application/json")


def _refusal(sessions: Sessions, status: int, why: str) -> Response:
    sessions.counts[f"refused {status}"] += 1
    headers = {"connection": "close"}  # the body of a refused request was not read
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return _json(_write({"error": why}), status, headers)


def _lifespan(sessions: Sessions) -> Any:
    async def end_idle_sessions() -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(_IDLE_CHECK_S, sessions.limits.idle_s / 4))
            sessions.end_idle(loop.time())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(end_idle_sessions())
        yield
        task.cancel()
        sessions.end_all()

    return lifespan


# --- access --------------------------------------------------------------------------------


class Guard:
    """Checks host, origin and token of a request."""

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        self._hosts = own_hosts(port) if is_loopback(host) else None
        if token is None and self._hosts is None:
            raise ConfigError(
                f"{host} can be reached from elsewhere, which needs a token: set "
                f"{protocol.TOKEN_VARIABLE}, or listen on 127.0.0.1"
            )
        if token is not None and not (len(token) >= _SHORTEST_TOKEN and token.isascii()):
            raise ConfigError(f"the token must be of {_SHORTEST_TOKEN} ASCII signs or more")
        # A closure, so that the token is in no attribute that something may print.
        self._knows: Callable[[bytes], bool] = lambda given: (
            token is None or same_secret(given, token)
        )

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Return the status and the reason of a refusal, or None."""
        found = dict(headers)
        host = found.get(b"host", b"").decode("latin-1")
        own = is_own(host, None, self._hosts) if self._hosts is not None else True
        if not own or b"origin" in found:
            return 403, "this server answers programs that call it by its own name, and no pages"
        if not self._knows(_secret(found.get(b"authorization", b""))):
            return 401, f"this server wants its token, as {protocol.TOKEN_VARIABLE} holds it"
        return None


class _Guarded:
    """Middleware: refuses what ``guard`` refuses."""

    def __init__(self, app: ASGIApp, guard: Guard, sessions: Sessions) -> None:
        self._app, self._guard, self._sessions = app, guard, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None if scope["type"] == "lifespan" else self._guard.refusal(scope["headers"])
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            self._sessions.counts[f"refused {refusal[0]}"] += 1
            await WebSocketClose(1008)(scope, receive, send)
        else:
            await _refusal(self._sessions, *refusal)(scope, receive, send)


def _secret(header: bytes) -> bytes:
    """Return the secret of an ``Authorization`` header: a bearer token or a basic password.

    >>> _secret(b"Bearer abc"), _secret(b"Basic " + base64.b64encode(b"me:abc")), _secret(b"abc")
    (b'abc', b'abc', b'')
    """
    kind, _, secret = header.partition(b" ")
    if kind.lower() == b"bearer":
        return secret.strip()
    if kind.lower() == b"basic":
        with suppress(ValueError):
            return base64.b64decode(secret, validate=True).partition(b":")[2]
    return b""


# --- the row protocol ----------------------------------------------------------------------


async def _body(request: Request, limits: ServerLimits) -> bytes:
    """Return the body of a request, if it comes in time and is not too large."""
    body = bytearray()
    try:
        async with asyncio.timeout(limits.request_s):
            async for part in request.stream():
                body += part
                if len(body) > limits.body_bytes:
                    raise HTTPException(413, f"a request has at most {limits.body_bytes} bytes")
    except TimeoutError:
        raise HTTPException(408, f"a request must come within {limits.request_s:g} s") from None
    except ClientDisconnect:
        raise HTTPException(400, "the request was cut off") from None
    return bytes(body)


def read_jobs(body: bytes, limits: ServerLimits) -> list[Job]:
    """Return the rows of a request; raises ``ConfigError`` if it is malformed."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise ConfigError("the body must be JSON") from None
    rows = request.get("rows") if isinstance(request, dict) else None
    if not isinstance(rows, list) or len(rows) > limits.rows:
        raise ConfigError(f"the body must be an object with at most {limits.rows} rows")
    for at, row in enumerate(rows):
        if problem := _problem(row):
            raise ConfigError(f"row {at}: {problem}")
    return [tuple(row) for row in rows]


def _problem(row: Any) -> str:
    if type(row) is not list or len(row) != 4:
        return "must be a list of session, number, operation and argument"
    name, number, operation, argument = row
    if type(name) is not str or type(number) is not int:
        return "its session must be a string and its number a whole number"
    if operation in (protocol.STEP, protocol.CALL):
        return "" if type(argument) is str else f"{operation} takes a string"
    if operation == protocol.RESET:
        match argument:
            case [seed, None | dict()] if seed is None or type(seed) is int:
                return ""
        return "reset takes a seed and options, either of them null"
    return "" if operation == protocol.CLOSE else f"operation must be one of {protocol.OPERATIONS}"


def describe(env: gym.Env[str, str], env_id: str, sessions: Sessions) -> dict[str, Any]:
    """Return what a client must know about ``env`` before the first episode."""
    has = {name for name in protocol.PLAYERS if env.has_wrapper_attr(f"{name}_action")}
    return {
        "protocol": protocol.PROTOCOL,
        "version": __version__,
        "env_id": env_id,
        "observation": _space(env.observation_space),
        "action": _space(env.action_space),
        "system_prompt": find_system_prompt(env),
        "has_splits": find_attribute(env, "has_splits") is True,
        "players": sorted(sessions.players & has),
    }


def _space(space: Any) -> dict[str, Any]:
    if not isinstance(space, spaces.Text):
        raise ConfigError(f"only environments of text can be served, got {space}")
    examples = getattr(space, "examples", ())
    return {"max_length": int(space.max_length), "examples": [str(one) for one in examples][:100]}
