"""JSON over HTTP: the only module that imports httpx.

A response has a deadline and a maximum size. Every problem with it is an ``HTTPError``, and no
message shows an API key. ``Backoff`` decides when to retry.
"""

import importlib
import json
import math
import os
import re
import socket
import threading

# A deadline has to read the clock, which lint bans because it makes episodes differ.
import time  # noqa: TID251
import urllib.parse
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from llm_gym.core.errors import ConfigError, require_package
from llm_gym.core.splits import stable_hash

CONNECT_S = 30.0
"""Maximum seconds to connect; the caller sets the limit for the response."""
MAX_BODY_BYTES = 64 << 20
"""Maximum size of a response."""
KEY_VARIABLE = "LLM_GYM_API_KEY"
HIDDEN = "[key]"
MAX_RETRY_AFTER_S = 600.0
"""Maximum wait that a server's ``Retry-After`` can ask for."""
_IDLE_S = 2.0  # a connection is kept; many servers close one after five seconds
_SHOWN = 300
_SHORTEST_KEY = 8  # what is shorter, as the EMPTY that many servers are given, is no secret
_PASSING = frozenset({408, 409, 425, 429})


class HTTPError(Exception):
    """The server cannot be reached, or refuses."""

    status: int | None = None
    """Status code of the response, if there was one."""
    body: str = ""
    headers: Mapping[str, str] = {}


class JsonHTTP:
    """HTTP client of the server at ``url``; thread-safe.

    It uses httpx's transport without its client: no redirects, no cookies, no proxies or passwords
    from environment variables, no logging of URLs.

    Args:
        url: Base URL of the server; ``get`` and ``post`` append their path.
        key: Sent with every request, and hidden in every answer.
    """

    def __init__(self, url: str, key: "Key | None" = None) -> None:
        parts = split_url(url)
        if parts.username is not None:
            raise ConfigError("url must hold no user name or password")
        # Without its query, which may hold a secret.
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._query = f"?{parts.query}" if parts.query else ""
        self._headers: Callable[[], Mapping[str, str]] = key.headers if key else dict
        self.hide: Callable[[str], str] = key.hide if key else str
        require_package("httpx", "talking to a server", "endpoint")
        self._httpx: Any = importlib.import_module("httpx")
        self._failures = (self._httpx.TransportError, self._httpx.InvalidURL)
        limits = self._httpx.Limits(
            max_connections=None, max_keepalive_connections=None, keepalive_expiry=_IDLE_S
        )
        # Reading certificates takes a while, and only https needs them.
        verify = parts.scheme == "https"
        self._transport = self._httpx.HTTPTransport(verify=verify, limits=limits)
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.local()  # with the deadline of the request that it waits for

    def get(self, path: str, timeout: float | None = None) -> Any:
        return self._send("GET", path, None, timeout)

    def post(self, path: str, body: Any, timeout: float | None = None) -> Any:
        return self._send("POST", path, body, timeout)

    def close(self) -> None:
        """End every request in every thread with an ``HTTPError``, and refuse new ones."""
        with self._lock:
            self._closed = True
            sockets = list(self._sockets)
        for connection in sockets:
            with suppress(OSError):  # closed in this moment
                connection.shutdown(socket.SHUT_RDWR)
        self._transport.close()

    def _send(self, method: str, path: str, body: Any, timeout: float | None) -> Any:
        if self._closed:
            raise HTTPError(f"{self.url}{path}: closed on this side")
        try:
            status, headers, text = self._exchange(method, path, body, timeout)
            if 200 <= status < 300:
                # A key that is hidden here may be written out by JSON: the caller hides it again.
                is_json = "json" in headers.get("content-type", "")
                return json.loads(text) if is_json and text else text
        except RecursionError:
            problem = "the answer is nested too deeply"
        except (self._httpx.TimeoutException, TimeoutError):
            problem = "timed out"
        except (*self._failures, OSError, ValueError, ArithmeticError) as failure:
            problem = self.hide(str(failure))[:_SHOWN] or type(failure).__name__
        else:
            error = HTTPError(f"{self.url}{path} answered {status}: {text[:_SHOWN]}")
            error.status, error.body, error.headers = status, text, headers
            raise error
        # Not "from" what was caught: it may quote the server, and the server our key.
        raise HTTPError(f"{self.url}{path}: {problem}") from None

    def _exchange(
        self, method: str, path: str, body: Any, timeout: float | None
    ) -> tuple[int, dict[str, str], str]:
        self._thread.deadline = math.inf if timeout is None else time.monotonic() + timeout
        connect = CONNECT_S if timeout is None else min(timeout, CONNECT_S)
        limits = self._httpx.Timeout(timeout, connect=connect, pool=None)
        # Our own JSON is ASCII: httpx's refuses half a character, which a model may write.
        content = json.dumps(body).encode() if method == "POST" else None
        kind = {"Content-Type": "application/json"} if method == "POST" else {}
        request = self._httpx.Request(
            method,
            f"{self.url}{path}{self._query}",
            headers={**kind, **self._headers()},
            content=content,
            extensions={"timeout": limits.as_dict(), "trace": self._trace},
        )
        response = self._transport.handle_request(request)
        try:
            parts: list[bytes] = []
            size = 0
            for part in response.stream:
                parts.append(part)
                size += len(part)
                if size > MAX_BODY_BYTES:
                    raise ValueError(f"more than {MAX_BODY_BYTES >> 20} MiB")
        finally:
            response.close()
        text = self.hide(b"".join(parts).decode("utf-8", "replace"))
        return response.status_code, dict(response.headers), text

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Record every new connection, so that ``close`` can end it, and limit its reading time."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            stream = info["return_value"]
            stream.read = partial(self._read, stream.read)
            connection = stream.get_extra_info("socket")
            with self._lock:
                self._sockets.add(connection)
                if self._closed:
                    connection.close()
                    raise ConnectionAbortedError("closed on this side")

    def _read(self, read: Callable[..., bytes], size: int, timeout: float | None = None) -> bytes:
        """Read within a deadline for the whole response; httpx's timeout applies to each part."""
        left = self._thread.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return read(size, timeout if timeout is None else min(timeout, left))


def split_url(
    url: str, rule: str = "url must be like http://127.0.0.1:8000"
) -> urllib.parse.SplitResult:
    """Return the parts of ``url``; raises ``ConfigError`` with ``rule`` if it names no server."""
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port
    except ValueError:  # a port that is no number, or half of an IPv6 address
        parts = urllib.parse.urlsplit("")
    odd = not url.isascii() or any(sign <= " " for sign in url)
    if odd or parts.scheme not in ("http", "https") or not parts.hostname:
        got = "" if {"@", "?"} & set(url) else f", got {url!r}"  # such a one may hold a secret
        raise ConfigError(f"{rule}{got}")
    return parts


# --- keys ---------------------------------------------------------------------------------------


class Key:
    """An API key that never appears in prints, logs, records or pickles.

    >>> key = Key("sk-0123456789", "MY_KEY")
    >>> key, key.hide('{"error": "no such key: sk-0123456789"}')
    (<key from MY_KEY>, '{"error": "no such key: [key]"}')
    """

    def __init__(self, secret: str, origin: str) -> None:
        self.origin = origin
        if not re.fullmatch(r"[!-~]+", secret):  # the error of a header would show it
            raise ConfigError(f"the key in {origin} must be of ASCII letters, digits and signs")
        # As it is, and as JSON and URLs may write it.
        forms = {secret, secret.replace("/", r"\/"), urllib.parse.quote(secret, safe="")}
        pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
        if len(secret) < _SHORTEST_KEY:
            pattern = re.compile("(?!)")  # never matches
        # Closures, so that the key is in no attribute that something may print or save.
        self.headers: Callable[[], dict[str, str]] = lambda: {"Authorization": f"Bearer {secret}"}
        self.hide: Callable[[str], str] = lambda text: pattern.sub(HIDDEN, text)

    def __repr__(self) -> str:
        return f"<key from {self.origin}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled; read it from the environment on the other side")


def read_key(variable: str) -> Key | None:
    """Return the key in an environment variable, or None if there is none."""
    secret = os.environ.get(variable, "").strip()
    return Key(secret, variable) if secret else None


def find_key(url: str, name: str | None = None) -> Key | None:
    """Return the API key for the server at ``url``, or None if there is none.

    Args:
        url: The server. Without ``name``, ``OPENAI_API_KEY`` is sent only to OpenAI.
        name: The environment variable that holds the key, instead of ``LLM_GYM_API_KEY``.
    """
    if name is not None:
        # Neither message repeats the name: it may be the key, given by mistake.
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ConfigError(
                "the key's name must be that of an environment variable, such as OPENAI_API_KEY, "
                "and never the key itself"
            )
        if (key := read_key(name)) is None:
            raise ConfigError("the environment variable that was named for the key is not set")
        return key
    host = urllib.parse.urlsplit(url).hostname or ""
    is_openai = host == "openai.com" or host.endswith(".openai.com")
    return read_key(KEY_VARIABLE) or (read_key("OPENAI_API_KEY") if is_openai else None)


# --- retries ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff.

    Each wait is shortened at random by up to a half, so that clients that failed together do not
    retry together.

    >>> backoff = Backoff(first_s=1.0, longest_s=5.0)
    >>> [backoff.wait(failures, jitter=1.0) for failures in (1, 2, 3, 4)]
    [1.0, 2.0, 4.0, 5.0]
    >>> backoff.wait(1, jitter=0.0), backoff.wait(1, jitter=0.0, at_least=7.0)
    (0.5, 7.0)
    """

    tries: int = 6
    """Total number of requests, including the first one."""
    first_s: float = 0.5
    longest_s: float = 30.0

    def __post_init__(self) -> None:
        if self.tries < 1 or self.first_s < 0 or self.longest_s < self.first_s:
            raise ConfigError(f"tries must be at least 1 and waits must not be negative: {self}")

    def wait(self, failures: int, jitter: float, at_least: float | None = None) -> float:
        """Return the seconds to wait after ``failures`` failures.

        ``at_least`` is what the server asked for.
        """
        own = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 60))
        return max(own * (1 + jitter) / 2, min(at_least or 0.0, MAX_RETRY_AFTER_S))


def is_transient(error: HTTPError) -> bool:
    """Return whether the same request may succeed later."""
    if "insufficient_quota" in error.body:
        return False
    return error.status is None or error.status in _PASSING or error.status >= 500


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that ``Retry-After`` asks for; dates are not supported.

    >>> retry_after({"retry-after": "2.5"}), retry_after({"retry-after": "soon"})
    (2.5, None)
    """
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None


def jitter(*place: int) -> float:
    """Return a number in [0, 1) that depends on ``place`` alone."""
    return stable_hash("/".join(map(str, place)), 64) / 2**64
