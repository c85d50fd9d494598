"""How much of a server one of its players may use."""

from __future__ import annotations

from dataclasses import dataclass, fields

from llm_gym.errors import ConfigError


@dataclass(frozen=True)
class Limits:
    """What a server allows; beyond it a request is refused, or a session ended.

    >>> Limits(sessions=0)
    Traceback (most recent call last):
    llm_gym.errors.ConfigError: sessions must be above 0, got 0
    """

    sessions: int = 4096
    """Episodes at the same time."""
    connections: int = 4096
    body_bytes: int = 16 << 20
    """Bytes of a request, or of a WebSocket message."""
    rows: int = 4096
    """Rows of a request."""
    episode_turns: int = 10_000
    """Steps until an episode is truncated."""
    idle_s: float = 600.0
    """Seconds without a word until a session is ended."""
    step_s: float = 60.0
    """Seconds that an environment may take for a step, where it runs in a thread."""
    request_s: float = 30.0
    """Seconds until a request must have arrived as a whole."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ConfigError(f"{field.name} must be above 0, got {value}")
