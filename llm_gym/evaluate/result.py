"""``Evaluation``: success, return and other figures of a set of episodes."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from llm_gym.core.infos import flag
from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Trajectory
from llm_gym.evaluate.scores import normalised, wilson
from llm_gym.reading.formats import drop_thinking

_MANY = 0.05
"""Share of truncated or empty replies above which ``notes`` mentions them."""


@dataclass(frozen=True)
class Evaluation:
    """How a model played."""

    env_id: str | None
    episodes: list[Trajectory] = field(repr=False)
    tokens: int
    """Tokens that the model wrote."""
    seconds: float

    @property
    def success(self) -> float:
        return sum(episode.success for episode in self.episodes) / len(self.episodes)

    @property
    def without_outcome(self) -> int:
        """Terminated episodes without ``success`` in ``info``."""
        over = [e for e in self.episodes if e.stop_reason == StopReason.FINISHED and e.infos]
        return sum(flag(episode.infos[-1], "success") is None for episode in over)

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(sum(episode.success for episode in self.episodes), len(self.episodes))

    @property
    def normalised(self) -> float | None:
        """Success rate, scaled so that the random player has 0 and the solver 1."""
        return None if self.env_id is None else normalised(self.env_id, self.success)

    @property
    def mean_return(self) -> float:
        return sum(episode.total_reward for episode in self.episodes) / len(self.episodes)

    @property
    def mean_turns(self) -> float:
        return sum(episode.num_turns for episode in self.episodes) / len(self.episodes)

    @property
    def invalid(self) -> float:
        """Share of unusable replies, if the environment reports it."""
        flags = [flag(info, "valid_action") for e in self.episodes for info in e.infos]
        return flags.count(False) / max(len(flags), 1)

    @property
    def cut(self) -> float:
        """Share of replies that the token limit truncated, if known."""
        ends = [end for e in self.episodes for end in (e.extra or {}).get("finish", ())]
        return ends.count("length") / max(len(ends), 1)

    @property
    def empty(self) -> float:
        """Share of replies that are empty or contain only reasoning."""
        empty = [not drop_thinking(text).strip() for e in self.episodes for text in e.actions]
        return sum(empty) / max(len(empty), 1)

    def problems(self, token_limit: str = "--max-tokens") -> list[str]:
        """Return why episodes did not end normally, one sentence for each reason.

        ``token_limit`` is the flag of the command that played.
        """
        found = Counter(episode.stop_reason for episode in self.episodes)
        notes = []
        if cut := found[StopReason.CONTEXT]:
            notes.append(f"{cut} of {len(self.episodes)} episodes outgrew the model's context")
        if failed := found[StopReason.ERROR]:
            notes.append(f"{failed} of {len(self.episodes)} episodes failed in their environment")
        if self.cut > _MANY:
            # A reply that was cut within a thought counts as empty.
            or_off = ", or turn the model's thinking off" * (self.empty > _MANY)
            notes.append(
                f"{self.cut:.0%} of the replies were cut at the limit of tokens: raise "
                f"{token_limit}{or_off}"
            )
        elif self.empty > _MANY:
            notes.append(f"{self.empty:.0%} of the replies were empty, or only a thought")
        return notes

    def notes(self) -> list[str]:
        """Return warnings about the figures, one sentence each."""
        notes = self.problems()
        if self.without_outcome:
            notes.append(
                f"{self.without_outcome} episodes ended without saying whether they were won: look "
                "at the return, or say it yourself by --set success=module:function, which is "
                "given total, terminated, reward and info"
            )
        return notes

    def summary(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        low, high = self.interval
        return {
            "env": self.env_id,
            "episodes": len(self.episodes),
            "success": self.success,
            "success_low": low,
            "success_high": high,
            "normalised": self.normalised,
            "return": self.mean_return,
            "turns": self.mean_turns,
            "invalid": self.invalid,
            "cut": self.cut,
            "empty": self.empty,
            "tokens": self.tokens,
            "tokens_per_s": self.tokens / self.seconds if self.seconds else 0.0,
        }

    def __str__(self) -> str:
        low, high = self.interval
        scale, pace = "", ""
        if self.normalised is not None:
            place = f"{round(self.normalised, 2) + 0.0:.2f}"
            scale = f" (scale {place}: 0 is a random player, 1 the solver)"
        if self.tokens and self.seconds:
            pace = f", {self.tokens / self.seconds:,.0f} tokens/s"
        return (
            f"{self.env_id}: success {self.success:.1%} [{low:.1%}, {high:.1%}] over "
            f"{len(self.episodes)} episodes{scale}, {self.mean_turns:.1f} turns, "
            f"{self.invalid:.1%} of the replies unusable{pace}"
        )
