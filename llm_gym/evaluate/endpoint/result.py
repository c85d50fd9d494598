"""How a served model played, and what it cost."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_gym.core.errors import ConfigError, LLMGymError
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
class Prices:
    """Of a million tokens, read and written, in any currency.

    Tokens that a server reads from its cache count as any others, so the cost may be less.
    """

    per_million_in: float = 0.0
    per_million_out: float = 0.0

    def __post_init__(self) -> None:
        for name, price in vars(self).items():
            if not 0.0 <= price < float("inf"):
                raise ConfigError(f"{name} must be a number of at least 0, got {price}")

    def cost(self, usage: Usage) -> float:
        """Return what the tokens of ``usage`` cost.

        >>> Prices(0.5, 2.0).cost(Usage(tokens_in=3_000_000, tokens_out=100_000))
        1.7
        """
        read, written = usage.tokens_in / 1e6, usage.tokens_out / 1e6
        return read * self.per_million_in + written * self.per_million_out


@dataclass(frozen=True)
class ServedEvaluation(Evaluation):
    """How a served model played."""

    usage: Usage
    """Of every request, those of episodes that did not end included."""
    planned: int
    """Episodes that were to be played."""
    prices: Prices | None = None

    @property
    def cost(self) -> float | None:
        return None if self.prices is None else self.prices.cost(self.usage)

    def summary(self) -> dict[str, Any]:
        usage = self.usage._asdict()
        stopped = Counter(str(episode.stop_reason) for episode in self.episodes)
        stops = {"stop_reasons": dict(sorted(stopped.items()))}
        return {**super().summary(), "planned": self.planned, **stops, **usage, "cost": self.cost}

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
