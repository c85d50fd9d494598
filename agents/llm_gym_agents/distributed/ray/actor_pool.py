"""``ActorPool``: the actors that play, kept alive and on the present weights.

An actor that dies, or takes too long, is replaced, given the present weights, and sent its shards
again. After too many deaths in a row the run ends, with the last lines that the actor wrote.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import torch

from llm_gym_agents.config import RayConfig
from llm_gym_agents.distributed.ray.actor import (
    ActorHandle,
    ActorInfo,
    ActorSetup,
    EpisodeShard,
    SamplerActor,
)
from llm_gym_agents.distributed.ray.cluster import ActorLostError, RayCluster
from llm_gym_agents.distributed.ray.weight_transport import Weights, WeightTransport
from llm_gym_agents.engines.base import EngineError

MAX_RESTARTS = 3
"""Replacements of an actor in a row, without an episode from it, before the run ends."""
_log = logging.getLogger(__name__)


class ActorPool:
    """Actors, kept alive."""

    def __init__(
        self,
        cluster: RayCluster,
        setup: ActorSetup,
        settings: RayConfig,
        weights: Weights,
        device: torch.device,
    ) -> None:
        self.cluster, self._settings = cluster, settings
        self.actors = [ActorHandle(index) for index in range(settings.num_actors)]
        self.version = 0
        """Of the weights that every actor has."""
        self.restarts = 0
        self.transport = WeightTransport(cluster, weights, device)
        self._batch_since = time.monotonic()
        # A vLLM that takes a share of a GPU measures what is free: none may grow meanwhile.
        shares_a_gpu = 0 < (settings.num_gpus_per_actor or 0) < 1
        self._one_by_one = shares_a_gpu and "cache_gb" not in setup.config.inference.engine
        try:
            self._setup = cluster.put(setup)
            self._start(self.actors)
        except BaseException:
            self.close()
            raise

    @property
    def info(self) -> ActorInfo:
        info = self.actors[0].info
        assert info is not None
        return info

    def assign(self, actor: ActorHandle, shard: EpisodeShard) -> None:
        """Give an actor a shard to play, after those that it has."""
        if not actor.shards:
            actor.since = time.monotonic()
        actor.shards.append(shard)
        self._send(actor, shard)

    def _send(self, actor: ActorHandle, shard: EpisodeShard) -> None:
        shard.call = self.cluster.call(actor.actor, "play", *shard.arguments)

    def push(self, version: int) -> int:
        lost = self.transport.push(self.actors, version, self._settings.timeout)
        self.version = version
        for actor, why in lost.items():
            self.replace(actor, why)
        return self.transport.compared

    def forget(self) -> None:
        for call in [self.cluster.call(each.actor, "forget") for each in self.actors]:
            with suppress(ActorLostError):  # it is replaced when it is to play
                self.cluster.result(call)

    def _start(self, actors: Sequence[ActorHandle]) -> None:
        for handle in actors:
            handle.info = None
            handle.actor = self.cluster.start(SamplerActor, self._setup)
        for some in [[handle] for handle in actors] if self._one_by_one else [actors]:
            calls = [self.cluster.call(handle.actor, "build") for handle in some]
            for handle, call in zip(some, calls, strict=True):
                handle.info = self.cluster.result(call)

    def replace(self, lost: ActorHandle, why: str) -> None:
        """Start another actor in the place of a lost one, and give it the same shards."""
        while True:
            if lost.info and (tail := self.cluster.log_tail(lost.actor, lost.info.pid)):
                why = f"{why}; its last lines:\n{tail}"
            self.cluster.kill(lost.actor)
            lost.deaths += 1
            if lost.deaths > MAX_RESTARTS:
                raise EngineError(f"{lost.name} was lost {lost.deaths} times in a row: {why}")
            self.restarts += 1
            _log.warning("%s is replaced, and plays its episodes again: %s", lost.name, why)
            try:
                self._start([lost])
                again = self.transport.push([lost], self.version, self._settings.timeout)
                if not again:
                    break
                why = again[lost]
            except ActorLostError as error:
                why = str(error)
        lost.since = time.monotonic()
        lost.shards = deque(shard for shard in lost.shards if shard.wanted)
        for shard in lost.shards:
            self._send(lost, shard)

    def batch_metrics(self) -> dict[str, float]:
        """Return metrics of the actors since the last call."""
        now = time.monotonic()
        wall, self._batch_since = max(now - self._batch_since, 1e-9), now
        rates = [actor.tokens / wall for actor in self.actors]
        idle = [max(0.0, 1.0 - actor.busy_s / wall) for actor in self.actors]
        for actor in self.actors:
            actor.tokens, actor.busy_s = 0, 0.0
        return {
            "ray/actors": len(self.actors),
            "ray/restarts": self.restarts,
            "ray/queued": sum(len(actor.shards) for actor in self.actors),
            "time/actor_tokens_per_s": sum(rates) / len(rates),
            "time/actor_tokens_per_s_least": min(rates),
            "time/actor_idle": sum(idle) / len(idle),
        }

    def close(self) -> None:
        """End every actor, and the cluster if it was started here. Safe to call twice."""
        actors, self.actors = self.actors, []
        for handle in actors:
            if handle.actor is not None:
                with suppress(EngineError):
                    self.cluster.kill(handle.actor)
        self.cluster.close()


def gpu_assignment(settings: RayConfig, device: torch.device, learners: int) -> list[str] | None:
    """Return the GPUs that a cluster on this machine may give to actors; None for any.

    The learner keeps its GPUs to itself where actors want whole ones and enough are left. Actors
    that want a share of a GPU (``ray.num_gpus_per_actor`` below 1) may share the learner's.

    Args:
        settings: Of the cluster.
        device: Of the learner.
        learners: Processes of the learner on this machine, a GPU each; 0 where it is one process.
    """
    each = 1.0 if settings.num_gpus_per_actor is None else settings.num_gpus_per_actor
    if device.type != "cuda" or each < 1 or settings.address is not None:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(at) for at in range(torch.cuda.device_count())]
    learning = set(range(learners)) or {device.index or 0}
    left = [gpu for at, gpu in enumerate(gpus) if at not in learning]
    return left if len(left) >= math.ceil(each) * settings.num_actors else None
