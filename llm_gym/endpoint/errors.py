"""What can go wrong at the other end."""

from __future__ import annotations

from llm_gym.endpoint.result import ServedEvaluation
from llm_gym.errors import LLMGymError


class EndpointError(LLMGymError, ConnectionError):
    """A server of models refuses what it is asked, or gives no answer."""

    result: ServedEvaluation | None = None
    """What had been played until then, if anything had."""


class Interrupted(KeyboardInterrupt):
    """Somebody pressed Ctrl-C while episodes were being played."""

    result: ServedEvaluation | None = None
    """What had been played until then, if anything had."""


class ContextFullError(Exception):
    """A conversation has outgrown what the model can read."""


class StoppedError(Exception):
    """The client was stopped before the reply came."""
