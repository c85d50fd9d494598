"""Runs the server until it is stopped, then closes everything. Only this module imports uvicorn."""

import asyncio
import errno
import importlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

import gymnasium as gym

from llm_gym.core.errors import ConfigError, require_package
from llm_gym.server.sessions import ServerLimits, SessionRunner, Sessions

THREADS = 32
_KEEP_ALIVE_S, _GRACE_S, _BACKLOG = 120, 5, 1024
_FRAGMENTS = 4096  # of one WebSocket message
_LIGHT, _HEAVY = "llm_gym.envs.", ("llm_gym.envs.tool_use.", "llm_gym.envs.questions.dataset")


class EnvServer:
    """Serves one environment, in the foreground (``run``) or in the background (``with``).

    Args:
        make: Builds an environment; called for every session.
        env_id: Name of the environment.
        host: The address to listen on; any other than loopback needs a token.
        port: The port; 0 takes a free one.
        token: Secret that every request must carry.
        limits: Limits on sessions, requests and time.
        players: Built-in players (oracle, solver, random) that clients may ask for a move.
        threads: Threads that step environments; 0 steps them in the event loop. By default the
            suite's games without tools run in the loop and everything else in threads.
        tls: Paths of a TLS certificate and its key.
    """

    def __init__(
        self,
        make: Callable[[], gym.Env[str, str]],
        env_id: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        limits: ServerLimits | None = None,
        players: Sequence[str] = (),
        threads: int | None = None,
        tls: tuple[str, str] | None = None,
    ) -> None:
        for package in ("starlette", "uvicorn"):
            require_package(package, "llm-gym serve", "serve")
        from llm_gym.server.app import Guard, describe, make_app

        self.limits = limits or ServerLimits()
        self.sessions = Sessions(make, self.limits, players)
        env = make()
        try:
            light = threads == 0 if threads is not None else is_light(env)
            runner = SessionRunner(self.sessions, in_loop=light, threads=threads or THREADS)
            about = describe(env, env_id, self.sessions)
            description = (type(env.unwrapped).__doc__ or "").strip().partition("\n")[0]
        finally:
            with suppress(Exception, SystemExit):  # it was built only to be described
                env.close()
        Guard(host, port, token)  # before anything listens
        self._socket = _listen(host, port)
        self.host, self.port = host, self._socket.getsockname()[1]
        self.app = make_app(runner, Guard(host, self.port, token), about, description)
        self._tls = tls
        self._thread: threading.Thread | None = None
        try:
            self._server = _uvicorn(self.app, self.limits, tls)
        except BaseException:
            self._socket.close()
            raise

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * (self._tls is not None)}://{host}:{self.port}"

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C."""
        with _hold_signals():
            self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        how = {"sockets": [self._socket]}
        self._thread = threading.Thread(target=self._server.run, kwargs=how, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.005)
        if not self._server.started:
            self._socket.close()
            raise ConfigError(f"the server at {self.url} did not start; see the error above")
        return self

    def __exit__(self, *args: object) -> None:
        self._server.should_exit = True
        assert self._thread is not None
        self._thread.join()


def is_light(env: gym.Env[Any, Any]) -> bool:
    """Return whether a step takes microseconds, as in the suite's games without tools.

    >>> import llm_gym
    >>> is_light(gym.make("llm_gym/Echo-v0")), is_light(gym.make("llm_gym/MathPython-v0"))
    (True, False)
    """
    module = type(env.unwrapped).__module__
    return module.startswith(_LIGHT) and not module.startswith(_HEAVY)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if not 0 <= port < 1 << 16:
        raise ConfigError(f"cannot listen on port {port}: it must be from 0 to 65535")
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        if error.errno == errno.EADDRINUSE:
            why = "something else listens there; --port 0 takes a free one"
        raise ConfigError(f"cannot listen on {host} port {port}: {why}") from error
    # Connections inherit this. Otherwise each answer waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _uvicorn(app: Any, limits: ServerLimits, tls: tuple[str, str] | None) -> Any:
    uvicorn: Any = importlib.import_module("uvicorn")
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",  # no line for each malformed request
        access_log=False,
        lifespan="on",
        ws_max_size=limits.body_bytes,
        ws_max_queue=1,
        ws_per_message_deflate=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    try:
        config.load()
    except OSError as error:
        raise ConfigError(f"cannot read the certificate or its key: {error}") from error
    config.http_protocol_class = _limit_http(config.http_protocol_class, limits)
    if config.ws_protocol_class is not None:
        config.ws_protocol_class = _limit_websocket(config.ws_protocol_class, limits)
    return uvicorn.Server(config)


def _limit_http(protocol: Any, limits: ServerLimits) -> Any:
    """Return uvicorn's HTTP protocol with limits on connections and on the time for headers."""

    class Bounded(protocol):  # type: ignore[misc]
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.abort()
            else:
                self._expect_headers()

        def data_received(self, data: bytes) -> None:
            if self._has_no_request() and self._deadline is None:  # kept alive; another begins
                self._expect_headers()
            super().data_received(data)
            if not self._has_no_request() and self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _has_no_request(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _expect_headers(self) -> None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(limits.request_s, self._drop_if_silent)

        def _drop_if_silent(self) -> None:
            self._deadline = None
            # One that became a WebSocket is no longer among the connections.
            if self in self.connections and self._has_no_request():
                self.transport.close()

    return Bounded


def _limit_websocket(protocol: Any, limits: ServerLimits) -> Any:
    """Return uvicorn's WebSocket protocol with limits on automatic answers and on fragments."""

    class Bounded(protocol):  # type: ignore[misc]
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            # uvicorn answers each ping, even if the client reads nothing; a fragment may be empty.
            unread = self.transport.get_write_buffer_size()
            if unread > limits.body_bytes or len(getattr(self, "frames", ())) > _FRAGMENTS:
                self.transport.abort()

    return Bounded


@contextmanager
def _hold_signals() -> Any:
    """Keep the signals that end the server from ending the process before it has closed all."""
    held = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: None) for number in held}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
