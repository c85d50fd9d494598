"""``ActorHandle``: one actor as the trainer sees it, with the episodes that it was given."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_gym_agents.distributed.ray.actor import ActorInfo, ActorResult
from llm_gym_agents.distributed.ray.cluster import RayCluster
from llm_gym_agents.engines.base import Completion, Request
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Rollout


@dataclass(eq=False)
class EpisodeShard:
    """Episodes that one actor plays together."""

    tasks: list[EpisodeTask]
    version: int | None
    """Of the weights they must be played with; None where these may change meanwhile."""
    greedy: bool = False
    held_out: bool = False
    call: Any = None
    played: Rollout | None = None
    wanted: bool = True
    """False once nobody waits for it any more."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """For ``SamplerActor.play``."""
        return self.tasks, self.version, self.greedy, self.held_out


@dataclass(eq=False)
class ActorHandle:
    """An actor, its queue of shards, and its statistics."""

    index: int
    actor: Any = None
    info: ActorInfo | None = None
    """None while it is being started."""
    shards: deque[EpisodeShard] = field(default_factory=deque)
    """Given to it and not done, oldest first; it plays the first."""
    since: float = 0.0
    """Latest time at which it can have begun its first shard."""
    deaths: int = 0
    """In a row, without a finished shard."""
    longest_s: float = 0.0
    """That it took for a shard."""
    tokens: int = 0
    busy_s: float = 0.0

    @property
    def name(self) -> str:
        """For messages."""
        return f"sampler {self.index}"

    def overdue_in(self, timeout: float | None) -> float | None:
        """Return the seconds until its first shard is overdue; None if it never is.

        Shards that are slow by nature get more time: twice the longest so far, and twice as much
        after each loss.
        """
        if timeout is None or not self.shards:
            return None
        limit: float = max(timeout, 2 * self.longest_s) * 2**self.deaths
        return self.since + limit - time.monotonic()

    def finish(self, result: ActorResult) -> None:
        """Note the result of its first shard."""
        shard = self.shards.popleft()
        shard.played = result.rollout
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self.since)
        self.deaths, self.since = 0, now
        self.tokens += result.rollout.tokens
        self.busy_s += result.busy_s


class ActorEngine:
    """An actor's engine, as far as the trainer asks it: for the probe and a warm start.

    Without a cluster it only answers what ``info`` says.
    """

    shares_model = False

    def __init__(
        self, info: ActorInfo, cluster: RayCluster | None = None, actor: Any = None
    ) -> None:
        self._cluster, self._actor = cluster, actor
        self.context_length, self.version = info.context_length, 0
        if info.dtype is not None:
            self.dtype = info.dtype

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request."""
        assert self._cluster is not None
        call = self._cluster.call(self._actor, "generate", list(requests))
        found: list[Completion] = self._cluster.result(call)
        return found
