"""Which requests a server on this machine accepts.

Every page in the user's browser can reach a server on loopback: a page of another site can send it
requests, and by DNS rebinding even read the answers. The browser names the site in the headers
``Host`` and ``Origin``. So a server that accepts only its own names there is closed to such pages.
"""

import ipaddress
import secrets


def own_hosts(port: int) -> frozenset[str]:
    """Return the host names that requests to a loopback server may use.

    >>> sorted(own_hosts(80))
    ['127.0.0.1:80', '[::1]:80', 'localhost:80']
    """
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "[::1]", "localhost"))


def is_own(host: str, origin: str | None, hosts: frozenset[str]) -> bool:
    """Return whether a request was meant for ``hosts``, and not sent by a page elsewhere.

    >>> is_own("localhost:80", None, own_hosts(80)), is_own("evil.example:80", None, own_hosts(80))
    (True, False)
    """
    mine = origin is None or origin in {f"http://{name}" for name in hosts}
    return host.lower() in hosts and mine


def same_secret(given: str | bytes, secret: str) -> bool:
    """Compare two secrets in constant time."""
    other = given if isinstance(given, bytes) else given.encode("utf-8", "surrogateescape")
    return secrets.compare_digest(other, secret.encode())


def is_loopback(host: str) -> bool:
    """Return whether a server at this address can be reached only from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
