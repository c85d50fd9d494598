"""``Sampler``: engine, environments and policy behind one call.

``play(tasks, version)`` plays named episodes with weights of that version and returns them. Tasks
and what comes back are plain data, and nothing here knows a trainer: a sampler may as well live in
another process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext

from llm_gym_agents.engines.base import Engine, EngineError
from llm_gym_agents.rollouts.collect import EpisodeCollector
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Rollout


class Sampler:
    """Plays named episodes.

    Args:
        policy: The model, with its engine.
        pool: The environments.
        held_out: Other environments to evaluate on; None takes ``pool``.
        on_end: Called with the number of episodes that have ended, now and then.
    """

    def __init__(
        self,
        policy: LLMPolicy,
        pool: TextEnvPool,
        held_out: TextEnvPool | None = None,
        *,
        on_end: Callable[[int], None] | None = None,
    ) -> None:
        self.policy = policy
        self.collector = EpisodeCollector(pool, policy, on_end)
        self.held_out = self.collector
        if held_out is not None:
            self.held_out = EpisodeCollector(held_out, policy, on_end)

    @property
    def engine(self) -> Engine:
        """What samples."""
        return self.policy.engine

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
        if version is not None and self.engine.version != version:
            raise EngineError(
                f"these episodes must be played with weights of version {version}, got an engine "
                f"with version {self.engine.version}; publish them first"
            )
        collector = self.held_out if held_out else self.collector
        with self.policy.greedily() if greedy else nullcontext():
            return collector.collect(tasks)

    def close(self) -> None:
        """End environments and engine and free their memory. Safe to call twice."""
        with ExitStack() as ends:
            ends.callback(self.engine.close)
            for collector in dict.fromkeys((self.collector, self.held_out)):
                ends.callback(collector.close)
