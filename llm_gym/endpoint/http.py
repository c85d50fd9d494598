"""JSON over HTTP with the standard library, from any number of threads.

Each thread keeps its own connection open, so a request costs one round trip. The server is a
stranger: an answer has a deadline as a whole, however it trickles in, and a size; and whatever is
wrong with it is an ``HTTPError``.
"""

from __future__ import annotations

import base64
import http.client
import io
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
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, NoReturn

from llm_gym.core.splits import stable_hash
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


OWN = "LLM_GYM_API_KEY"
OPENAI = "OPENAI_API_KEY"
HIDDEN = "[key]"
_SHORTEST = 8  # what is shorter, as the EMPTY that many servers are given, is no secret but a word


class Key:
    """An API key that does not show in prints, logs, records and pickles.

    >>> key = Key("sk-0123456789", "MY_KEY")
    >>> key, key.hide('{"error": "no such key: sk-0123456789"}')
    (<key from MY_KEY>, '{"error": "no such key: [key]"}')
    """

    def __init__(self, secret: str, origin: str) -> None:
        self.origin = origin
        secret = secret.strip()
        if not re.fullmatch(r"[!-~]+", secret):  # the error of http.client would show it
            raise ConfigError(f"the key in {origin} must be of ASCII letters, digits and signs")
        pattern = _pattern(secret)
        secretive = len(secret) >= _SHORTEST
        # Closures, so that the key is in no attribute that something may print or save.
        self.headers: Callable[[], dict[str, str]] = lambda: {"Authorization": f"Bearer {secret}"}
        self.hide: Callable[[str], str] = lambda text: (
            pattern.sub(HIDDEN, text) if secretive else text
        )

    def __repr__(self) -> str:
        return f"<key from {self.origin}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled; read it from the environment on the other side")


def _pattern(secret: str) -> re.Pattern[str]:
    """Return what finds ``secret`` however its signs are escaped, also in base64."""
    spelled = "".join(map(_sign, secret))
    coded = (_in_base64(secret.encode(), shift) for shift in range(3))
    return re.compile("|".join([spelled, *(re.escape(form) for form in coded)]))


def _sign(sign: str) -> str:
    r"""Return a pattern for a sign as it is, or as JSON, Python, a URL, C or HTML may write it.

    >>> written = ["a", "\\u0061", "\\\\u0061", "\\x61", "%61", "&#97;", "&#x61;", "\\141"]
    >>> all(re.fullmatch(_sign("a"), form) for form in written)
    True
    """
    code = ord(sign)
    low = f"(?i:{code:02x})"
    forms = [
        rf"\\*{re.escape(sign)}",  # \/ and \" are that in JSON
        rf"\\+u\{{?00{low}\}}?",
        rf"\\+x{low}",
        rf"\\+0?{code:o}",
        rf"%(?:25)*{low}",
        rf"&(?:amp;)*#0*{code};",
        rf"&(?:amp;)*#[xX]0*{low};",
    ]
    return f"(?:{'|'.join(forms)})"


def _in_base64(secret: bytes, shift: int) -> str:
    """Return the part of the base64 of ``secret`` that what stands around it does not change."""
    text = base64.b64encode(b"\0" * shift + secret).decode().rstrip("=")
    return text[4 if shift else 0 : len(text) - 1]


def find_key(url: str, name: str | None = None) -> Key | None:
    """Return the key for the server at ``url``, or None where there is none.

    Args:
        url: The server. ``OPENAI_API_KEY`` goes to OpenAI by itself and nowhere else.
        name: The environment variable that holds it, instead of ``LLM_GYM_API_KEY``.
    """
    if name is not None:
        # Neither message repeats the name: it may be the key, given by mistake.
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ConfigError(
                "the key's name must be that of an environment variable, such as OPENAI_API_KEY, "
                "and never the key itself"
            )
        if not os.environ.get(name, "").strip():
            raise ConfigError("the environment variable that was named for the key is not set")
        return Key(os.environ[name], name)
    host = urllib.parse.urlsplit(url).hostname or ""
    names = (OWN, OPENAI) if host == "openai.com" or host.endswith(".openai.com") else (OWN,)
    found = next((name for name in names if os.environ.get(name, "").strip()), None)
    return None if found is None else Key(os.environ[found], found)


_PASSING = frozenset({408, 409, 425, 429})
LONGEST_S = 600.0
"""The longest that a server may tell us to wait."""


@dataclass(frozen=True)
class Backoff:
    """Waits that double.

    Each takes between half and the whole of its length, so that many who failed together do not
    come back together.

    >>> backoff = Backoff(first_s=1.0, longest_s=5.0)
    >>> [backoff.wait(failures, jitter=1.0) for failures in (1, 2, 3, 4)]
    [1.0, 2.0, 4.0, 5.0]
    >>> backoff.wait(1, jitter=0.0), backoff.wait(1, jitter=0.0, told=7.0)
    (0.5, 7.0)
    """

    tries: int = 6
    """Requests in all, the first one included."""
    first_s: float = 0.5
    longest_s: float = 30.0

    def __post_init__(self) -> None:
        if self.tries < 1 or self.first_s < 0 or self.longest_s < self.first_s:
            raise ConfigError(f"tries must be at least 1 and waits must not be negative: {self}")

    def wait(self, failures: int, jitter: float, told: float | None = None) -> float:
        """Return the seconds to wait after ``failures`` failures; ``told`` by the server."""
        own = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 60))
        return max(own * (1 + jitter) / 2, min(told or 0.0, LONGEST_S))


def passes(error: HTTPError) -> bool:
    """Return whether the same request may succeed later: nobody answered, or a passing no."""
    if "insufficient_quota" in error.body:
        return False
    return error.status is None or error.status in _PASSING or error.status >= 500


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that ``Retry-After`` asks for: a number, or a date after ``Date``.

    >>> retry_after({"retry-after": "2.5"}), retry_after({"retry-after": "soon"})
    (2.5, None)
    >>> now, then = "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:57 GMT"
    >>> retry_after({"date": now, "retry-after": then})
    20.0
    """
    told = headers.get("retry-after", "")
    try:
        return max(0.0, float(told))
    except ValueError:
        pass
    try:
        then, now = parsedate_to_datetime(told), parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError, OverflowError, IndexError, AttributeError):
        return None


def jitter(*place: int) -> float:
    """Return a number in [0, 1) that depends on ``place`` alone."""
    return stable_hash("/".join(map(str, place)), 64) / 2**64
