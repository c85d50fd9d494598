"""Who may ask: this machine alone, or whoever knows the token."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable

from llm_gym.core.loopback import is_loopback, is_own, own_hosts, same_secret
from llm_gym.errors import ConfigError
from llm_gym.remote.wire import TOKEN_VARIABLE

_SHORTEST = 16
Headers = Iterable[tuple[bytes, bytes]]


class Guard:
    """Judges requests by their headers.

    Args:
        host: The address that the server listens on.
        port: Its port.
        token: What a request must know; needed unless ``host`` is loopback.
    """

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        self._hosts = own_hosts(port) if is_loopback(host) else None
        if token is None and self._hosts is None:
            raise ConfigError(
                f"{host} can be reached from elsewhere, which needs a token: set {TOKEN_VARIABLE}, "
                "or listen on 127.0.0.1"
            )
        if token is not None and not (len(token) >= _SHORTEST and token.isascii()):
            raise ConfigError(f"the token must be of {_SHORTEST} ASCII signs or more")
        # A closure, so that the token is in no attribute that something may print.
        self._knows: Callable[[bytes], bool] = lambda given: (
            token is None or same_secret(given, token)
        )
        self._open = token is None

    def refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Return the status and the reason of a refusal, or None."""
        found = dict(headers)
        host = found.get(b"host", b"").decode("latin-1")
        origin = found.get(b"origin")
        own = is_own(host, None, self._hosts) if self._hosts is not None else True
        if not own or origin is not None:
            return 403, "this server answers programs that call it by its own name, and no pages"
        if not self._open and not self._knows(_told(found.get(b"authorization", b""))):
            return 401, f"this server wants its token, as {TOKEN_VARIABLE} holds it"
        return None


def _told(header: bytes) -> bytes:
    """Return the secret of an ``Authorization`` header: a bearer's, or the password of a URL.

    >>> _told(b"Bearer abc"), _told(b"Basic " + base64.b64encode(b"me:abc")), _told(b"abc")
    (b'abc', b'abc', b'')
    """
    kind, _, secret = header.partition(b" ")
    if kind.lower() == b"bearer":
        return secret.strip()
    if kind.lower() == b"basic":
        try:
            return base64.b64decode(secret, validate=True).partition(b":")[2]
        except ValueError:
            return b""
    return b""
