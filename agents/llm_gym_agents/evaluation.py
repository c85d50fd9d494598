"""Letting a model play: ``rollout`` plays named episodes and says how it went.

result = rollout("llm_gym/TextGame-v0", "path/to/model", episodes=100)
print(result)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from llm_gym.episodes import Trajectory, write_episodes
from llm_gym.scores import normalised, wilson
from llm_gym_agents.collect import EpisodeCollector
from llm_gym_agents.policy import LLMPolicy
from llm_gym_agents.pool import TextEnvPool
from llm_gym_agents.sources import EnvSource
from llm_gym_agents.tasks import EpisodeTask


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a model played."""

    env_id: str | None
    episodes: list[Trajectory] = field(repr=False)
    tokens: int
    seconds: float

    @property
    def success(self) -> float:
        """Share of episodes won."""
        return sum(episode.success for episode in self.episodes) / len(self.episodes)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the success."""
        return wilson(sum(episode.success for episode in self.episodes), len(self.episodes))

    @property
    def normalised(self) -> float | None:
        """Success on the scale where a random player has 0 and the solver 1."""
        return None if self.env_id is None else normalised(self.env_id, self.success)

    @property
    def mean_return(self) -> float:
        """Mean sum of rewards."""
        return sum(episode.total_reward for episode in self.episodes) / len(self.episodes)

    @property
    def mean_turns(self) -> float:
        """Mean number of turns."""
        return sum(episode.num_turns for episode in self.episodes) / len(self.episodes)

    @property
    def invalid(self) -> float:
        """Share of replies that could not be used, where the environment says so."""
        flags = [info.get("valid_action", True) for e in self.episodes for info in e.infos]
        return flags.count(False) / max(len(flags), 1)

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain numbers."""
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
            "tokens": self.tokens,
            "tokens_per_s": self.tokens / self.seconds if self.seconds else 0.0,
        }

    def __str__(self) -> str:
        low, high = self.interval
        scale = "" if self.normalised is None else f", normalised {self.normalised:.2f}"
        return (
            f"{self.env_id}: success {self.success:.1%} [{low:.1%}, {high:.1%}] over "
            f"{len(self.episodes)} episodes{scale}, {self.mean_turns:.1f} turns, "
            f"{self.invalid:.1%} unusable, {self.tokens / max(self.seconds, 1e-9):,.0f} tokens/s"
        )


def rollout(
    env: EnvSource,
    model: str | LLMPolicy,
    episodes: int = 100,
    *,
    num_envs: int = 64,
    seed: int = 0,
    split: str | None = None,
    records: str | None = None,
    on_end: Callable[[int], None] | None = None,
    workers: int = 0,
    env_kwargs: dict[str, Any] | None = None,
    **policy_kwargs: Any,
) -> Evaluation:
    """Play ``episodes`` episodes of ``env`` and return how it went.

    Args:
        env: An id, a spec, a factory or an environment.
        model: A policy, or the path of a model for ``LLMPolicy.from_pretrained``.
        episodes: Episode ``i`` has the seed ``seed + i``.
        num_envs: Environments that are played side by side.
        seed: Seed of the first episode.
        split: Play instances of this split only.
        records: A file to write the episodes to.
        on_end: Called with the number of episodes that have ended, for a progress bar.
        workers: Processes for slow environments.
        env_kwargs: Settings of the environment.
        **policy_kwargs: For ``LLMPolicy.from_pretrained``.
    """
    policy = (
        model if isinstance(model, LLMPolicy) else LLMPolicy.from_pretrained(model, **policy_kwargs)
    )
    pool = TextEnvPool(env, min(num_envs, episodes), workers=workers, **(env_kwargs or {}))
    collector = EpisodeCollector(pool, policy, on_end)
    try:
        return evaluate(collector, tasks(episodes, seed, split), records)
    finally:
        collector.close()


def tasks(episodes: int, seed: int, split: str | None) -> list[EpisodeTask]:
    """Return named episodes with consecutive ids and seeds."""
    options = {"split": split} if split else None
    return [EpisodeTask(at, seed + at, at, options) for at in range(episodes)]


def evaluate(
    collector: EpisodeCollector, todo: Sequence[EpisodeTask], records: str | None = None
) -> Evaluation:
    """Play ``todo`` and return how it went."""
    start = perf_counter()
    episodes, tokens = collector.play(todo)
    result = Evaluation(collector.pool.env_id, episodes, tokens, perf_counter() - start)
    if records:
        write_episodes(records, episodes)
    return result
