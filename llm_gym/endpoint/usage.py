"""What asking a server has cost so far."""

from __future__ import annotations

from typing import NamedTuple


class Usage(NamedTuple):
    """What was asked of a server until now."""

    requests: int = 0
    """Answered ones."""
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    uncounted: int = 0
    """Replies whose tokens the server did not count."""
