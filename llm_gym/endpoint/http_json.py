"""JSON over HTTP with the standard library, from any number of threads.

Each thread keeps its own connection open, so a request costs one round trip. The server is a
stranger: an answer has a deadline as a whole, however it trickles in, and a size; and whatever is
wrong with it is an ``HTTPError``.
"""

from __future__ import annotations

import http.client
import io
import json
import math
import socket
import threading

# A deadline has to read the clock, which lint bans because it makes episodes differ.
import time  # noqa: TID251
import urllib.parse
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from llm_gym.errors import ConfigError

CONNECT_S = 30.0
"""Seconds until a connection must be made; an answer may take as long as the caller says."""
MAX_BODY_BYTES = 64 << 20
"""Largest answer that is read."""
_SHOWN = 300
_CHUNK = 1 << 16


class HTTPError(Exception):
    """The server cannot be reached, or says no."""

    status: int | None = None
    """What the server answered, if it did."""
    body: str = ""
    headers: Mapping[str, str] = {}


class _Reader(io.RawIOBase):
    """Reads from a socket until a deadline, and no more than an answer may have."""

    def __init__(self, plug: socket.socket, deadline: float) -> None:
        self._plug, self._deadline, self._left = plug, deadline, MAX_BODY_BYTES + _CHUNK
        # As long as it is held, ``http.client``, which closes the socket of an answer that says
        # "Connection: close" before that answer is read, closes nothing.
        self._hold = plug.makefile("rb", 0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("timed out")
        self._plug.settimeout(None if seconds == math.inf else seconds)
        count = self._plug.recv_into(buffer)
        self._left -= count
        if self._left < 0:
            raise http.client.HTTPException(f"more than {MAX_BODY_BYTES >> 20} MiB")
        return count

    def close(self) -> None:
        self._hold.close()
        super().close()


class _Timed:
    """A socket, as far as ``http.client`` reads an answer from it."""

    def __init__(self, plug: socket.socket, deadline: float) -> None:
        self._plug, self._deadline = plug, deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._plug, self._deadline))


class JsonHTTP:
    """Talks to the server at ``url``.

    Args:
        url: Where the server is; what ``get`` and ``post`` are given is added to it.
        headers: Sent with every request. Asked for anew each time, so that a secret among them
            lies in no attribute.
        hide: Takes secrets out of whatever the server says.
    """

    def __init__(
        self,
        url: str,
        headers: Callable[[], Mapping[str, str]] | None = None,
        hide: Callable[[str], str] | None = None,
    ) -> None:
        parts, port = split_url(url)
        if parts.username is not None:
            raise ConfigError("url must hold no user name or password")
        assert parts.hostname is not None
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, port
        self._path, self._query = parts.path.rstrip("/"), parts.query
        # Without its query, which may hold a secret.
        self.url = f"{parts.scheme}://{parts.netloc}{self._path}"
        self._headers, self._hide = headers or dict, hide or str
        self._threads = threading.local()
        self._open: weakref.WeakSet[http.client.HTTPConnection] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False

    def get(self, path: str, timeout: float | None = None) -> Any:
        """Return what the server says at ``path``."""
        return self._send("GET", path, None, timeout)

    def post(self, path: str, body: Any, timeout: float | None = None) -> Any:
        """Send ``body`` to ``path`` and return the answer."""
        return self._send("POST", path, json.dumps(body).encode(), timeout)

    def hang_up(self) -> None:
        """Close the connection of this thread."""
        kept: http.client.HTTPConnection | None = getattr(self._threads, "kept", None)
        self._threads.kept = None
        if kept is not None:
            kept.close()

    def close(self) -> None:
        """End every request of every thread: whoever waits for one gets an ``HTTPError``."""
        with self._lock:
            self._closed = True
            connections = list(self._open)
        for connection in connections:
            with suppress(OSError, AttributeError):  # closed in this moment
                connection.sock.shutdown(socket.SHUT_RDWR)
        self.hang_up()

    def _send(self, method: str, path: str, body: bytes | None, timeout: float | None) -> Any:
        kept: http.client.HTTPConnection | None = getattr(self._threads, "kept", None)
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        try:
            if kept is not None and kept.sock is not None:
                try:
                    return self._round_trip(kept, method, path, body, deadline)
                except (http.client.RemoteDisconnected, ConnectionError):
                    self.hang_up()  # a server may close what has been idle; once more, afresh
            kept = self._threads.kept = self._connect(timeout)
            return self._round_trip(kept, method, path, body, deadline)
        except KeyboardInterrupt:  # half an exchange: nobody could use this connection again
            self.hang_up()
            raise
        except (OSError, http.client.HTTPException, ValueError, ArithmeticError) as error:
            what = self._hide(str(error))[:_SHOWN] or type(error).__name__
        except RecursionError:
            what = "the answer is nested too deeply"
        self.hang_up()
        # Not "from" what was caught: it may quote the server, and the server our key.
        raise HTTPError(f"{self.url}{path}: {what}") from None

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        within = CONNECT_S if timeout is None else min(timeout, CONNECT_S)
        connection = kind(self._host, self._port, timeout=within)
        connection.connect()
        with self._lock:
            if self._closed:
                connection.close()
                raise ConnectionAbortedError("ended on this side")
            self._open.add(connection)
        return connection

    def _round_trip(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        deadline: float,
    ) -> Any:
        seconds = max(deadline - time.monotonic(), 0.001)
        connection.sock.settimeout(None if seconds == math.inf else seconds)
        respond: Any = partial(_response, deadline)
        connection.response_class = respond
        headers = {"Content-Type": "application/json"} if body is not None else {}
        target = self._path + path + (f"?{self._query}" if self._query else "")
        connection.request(method, target, body, {**headers, **self._headers()})
        answer = connection.getresponse()
        text = self._hide(_body(answer).decode("utf-8", "replace"))
        if not 200 <= answer.status < 300:
            error = HTTPError(f"{self.url}{path} answered {answer.status}: {text[:_SHOWN]}")
            error.status, error.body = answer.status, text
            error.headers = {name.lower(): value for name, value in answer.getheaders()}
            raise error
        # A key that is hidden here may be written out by JSON: the caller hides it again.
        is_json = "json" in (answer.headers.get("content-type") or "")
        return json.loads(text) if is_json and text else text


def _response(deadline: float, plug: Any, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:
    timed: Any = _Timed(plug, deadline)
    return http.client.HTTPResponse(timed, *args, **kwargs)


def _body(answer: http.client.HTTPResponse) -> bytes:
    """Return what an answer holds, whatever length it claims to have."""
    parts: list[bytes] = []
    size = 0
    while part := answer.read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise http.client.HTTPException(f"more than {MAX_BODY_BYTES >> 20} MiB")
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return b"".join(parts)


def split_url(url: str) -> tuple[urllib.parse.SplitResult, int | None]:
    """Return the parts of ``url`` and its port; ``ConfigError`` where no server can be meant."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.urlsplit(""), None
    odd = not url.isascii() or any(sign <= " " for sign in url)
    if odd or parts.scheme not in ("http", "https") or not parts.hostname:
        got = "" if {"@", "?"} & set(url) else f", got {url!r}"  # such a one may hold a secret
        raise ConfigError(f"url must be like http://127.0.0.1:8000{got}")
    return parts, port
