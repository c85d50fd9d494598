"""How a served model played, and what was asked of its server."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_gym.core.errors import LLMGymError
from llm_gym.evaluate.result import Evaluation


class Usage(NamedTuple):
    """What was asked of a server until now."""

    requests: int = 0
    """Answered ones."""
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    uncounted: int = 0
    """Replies whose tokens the server did not count."""


@dataclass(frozen=True)
class ServedEvaluation(Evaluation):
    """How a served model played."""

    usage: Usage
    """Of every request, those of episodes that did not end included."""
    planned: int
    """Episodes that were to be played."""

    def summary(self) -> dict[str, Any]:
        usage = self.usage._asdict()
        stopped = Counter(str(episode.stop_reason) for episode in self.episodes)
        stops = {"stop_reasons": dict(sorted(stopped.items()))}
        return {**super().summary(), "planned": self.planned, **stops, **usage}

    def notes(self) -> list[str]:
        said = super().notes()
        if left := self.planned - len(self.episodes):
            said.insert(
                0,
                f"{left} of {self.planned} episodes did not end; short ones end first, so the "
                "figures are no fair sample",
            )
        if self.usage.uncounted:
            said.append(f"the server did not count the tokens of {self.usage.uncounted} replies")
        if self.usage.retries:
            said.append(f"{self.usage.retries} requests had to be repeated")
        return said


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
