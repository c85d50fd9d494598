"""``Sampler``: engine, environments and policy behind one call.

``play(tasks, version)`` plays named episodes with weights of that version and returns them. Tasks
and what comes back are plain data, and nothing here knows a trainer: a sampler may as well live in
another process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from typing import Protocol

from llm_gym_agents.engines.base import Engine, EngineError
from llm_gym_agents.rollouts.collect import EpisodeCollector
from llm_gym_agents.rollouts.lots import joined, lots_of
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Rollout


class Player(Protocol):
    """Who plays: a ``Sampler`` in this process, or several elsewhere behind the same calls."""

    @property
    def policy(self) -> LLMPolicy: ...
    @property
    def env_id(self) -> str | None: ...
    @property
    def has_splits(self) -> bool: ...
    def play(
        self,
        tasks: Sequence[EpisodeTask],
        version: int | None = None,
        *,
        greedy: bool = False,
        held_out: bool = False,
    ) -> Rollout: ...
    def close(self) -> None: ...


def need_version(wanted: int | None, found: int) -> None:
    """Refuse to play episodes of other weights than are there; None is content with any."""
    if wanted is not None and wanted != found:
        raise EngineError(
            f"these episodes must be played with weights of version {wanted}, got version {found}; "
            "publish them first"
        )


class Sampler:
    """Plays named episodes.

    Args:
        policy: The model, with its engine.
        pool: The environments.
        held_out: Other environments to evaluate on; None takes ``pool``.
        lot_size: Episodes that are played apart from others, see ``lots``; None for all.
        on_end: Called with the number of episodes that have ended, now and then.
    """

    def __init__(
        self,
        policy: LLMPolicy,
        pool: TextEnvPool,
        held_out: TextEnvPool | None = None,
        *,
        lot_size: int | None = None,
        on_end: Callable[[int], None] | None = None,
    ) -> None:
        self.policy, self.lot_size = policy, lot_size
        self.collector = EpisodeCollector(pool, policy, on_end)
        self.held_out = self.collector
        if held_out is not None:
            self.held_out = EpisodeCollector(held_out, policy, on_end)

    @property
    def engine(self) -> Engine:
        """What samples."""
        return self.policy.engine

    @property
    def env_id(self) -> str | None:
        """Of the environments, if they are registered."""
        return self.collector.pool.env_id

    @property
    def has_splits(self) -> bool:
        """Whether the environments know training instances from held-out ones.

        Held-out environments of their own are split already.
        """
        return self.held_out is self.collector and self.collector.pool.has_splits

    def play(
        self,
        tasks: Sequence[EpisodeTask],
        version: int | None = None,
        *,
        greedy: bool = False,
        held_out: bool = False,
    ) -> Rollout:
        """Play ``tasks`` to their ends.

        Args:
            tasks: Which episodes.
            version: Of the weights they are to be played with; None for those that are there.
            greedy: Take the most likely token each time.
            held_out: Play in the held-out environments.
        """
        need_version(version, self.engine.version)
        collector = self.held_out if held_out else self.collector
        with self.policy.greedily() if greedy else nullcontext():
            return joined([self._play(collector, lot) for lot in lots_of(tasks, self.lot_size)])

    def _play(self, collector: EpisodeCollector, lot: list[EpisodeTask]) -> Rollout:
        if self.lot_size is not None:
            self.engine.forget()
        return collector.collect(lot)

    def close(self) -> None:
        """End environments and engine and free their memory. Safe to call twice."""
        with ExitStack() as ends:
            ends.callback(self.engine.close)
            for collector in dict.fromkeys((self.collector, self.held_out)):
                ends.callback(collector.close)
