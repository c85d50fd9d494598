"""When to ask again, and after how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from llm_gym.core.splits import stable_hash
from llm_gym.endpoint.http_json import HTTPError
from llm_gym.errors import ConfigError

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
