"""``ActorPool``: keeps the actors alive and their weights up to date.

An actor that dies, or takes too long, is replaced. The new actor gets the current weights and the
same shards. After too many deaths in a row the run ends, with the last lines that the actor wrote.

``WeightTransport`` sends new weights to every actor, and checks that each engine holds them. They
are cast once to what the engines keep and sent bucket by bucket. Actors on the learner's own GPU
read each bucket there (CUDA IPC). All others get it through Ray's object store: it is put there
once, and Ray sends it to each machine once. The next bucket is made when every actor has taken the
last, so there is never more than one in the store.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

import torch
from torch import Tensor

from llm_gym_agents.config import RayConfig
from llm_gym_agents.engines.base import EngineError, StaleWeightsError
from llm_gym_agents.engines.weight_check import WeightCheck, cast_and_sum
from llm_gym_agents.engines.weight_push import BUCKET_BYTES, PendingSums, buckets, to_bytes
from llm_gym_agents.trainer.ray.actor import (
    ActorHandle,
    ActorInfo,
    ActorSetup,
    EpisodeShard,
    SamplerActor,
    gpu_uuid,
)
from llm_gym_agents.trainer.ray.cluster import ActorLostError, ClusterLostError, RayCluster

MAX_RESTARTS = 3
"""Replacements of an actor in a row, without a finished episode, before the run ends."""
Weights = Callable[[], AbstractContextManager[Iterator[tuple[str, Tensor]]]]
"""Opens the learner's current weights, which are then read one by one."""
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
        """Append a shard to an actor's queue."""
        if not actor.shards:
            actor.since = time.monotonic()
        actor.shards.append(shard)
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
        """Replace a lost actor by a new one with the same shards."""
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
            shard.call = self.cluster.call(lost.actor, "play", *shard.arguments)

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

    The learner keeps its GPUs for itself if actors need whole GPUs and enough are left. Actors that
    need part of a GPU (``ray.num_gpus_per_actor`` below 1) may share the learner's.
    ``learners`` is the number of learner processes on this machine, 0 for a single one.
    """
    each = 1.0 if settings.num_gpus_per_actor is None else settings.num_gpus_per_actor
    if device.type != "cuda" or each < 1 or settings.address is not None:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(at) for at in range(torch.cuda.device_count())]
    learning = set(range(learners)) or {device.index or 0}
    left = [gpu for at, gpu in enumerate(gpus) if at not in learning]
    return left if len(left) >= math.ceil(each) * settings.num_actors else None


# --- weights -------------------------------------------------------------------------------


class WeightTransport:
    """Sends the weights of a learner on ``device`` to actors."""

    def __init__(self, cluster: RayCluster, weights: Weights, device: torch.device) -> None:
        self._cluster, self._weights = cluster, weights
        self._gpu: tuple[str, str] | None = None
        """Host and UUID of the learner's GPU; None where it has none, or IPC does not work."""
        if device.type == "cuda":
            self._gpu = socket.gethostname(), gpu_uuid(device)
        self._checks: dict[ActorHandle, tuple[Any, WeightCheck]] = {}
        self.compared = 0
        """Weights whose checksums were compared in the last push, on each actor."""
        self.proven = False
        """Whether these were all weights of all actors."""
        self.buckets = 0
        """Buckets of the last push."""

    def push(
        self, actors: Sequence[ActorHandle], version: int, timeout: float | None = None
    ) -> dict[ActorHandle, str]:
        """Send the current weights; return the actors that were lost meanwhile, and why.

        Raises ``StaleWeightsError`` if an engine does not hold what it was sent.
        """
        calls = ActorCalls(self._cluster, actors, timeout)
        sums = PendingSums()
        info = actors[0].info
        assert info is not None
        calls.ask("begin_weights")
        self.buckets = 0
        with self._weights() as named:
            self._send(calls, cast_and_sum(named, info.dtypes.get, sums))
        read = calls.ask("end_weights", version)
        ours, self.compared = sums.read(), 0
        for actor, theirs in read.items():
            try:
                self.compared = self._check_of(actor).compare(ours, theirs, version)
            except StaleWeightsError as error:
                raise StaleWeightsError(f"{actor.name}: {error}") from error
        self.proven = all(self._check_of(actor).proven for actor in read)
        return calls.lost

    def _send(self, calls: ActorCalls, named: Iterator[tuple[str, Tensor]]) -> None:
        for bucket in buckets(named, BUCKET_BYTES):
            self.buckets += 1
            if near := [actor for actor in calls.actors if self._shares_gpu(actor)]:
                try:
                    calls.ask("take_weights", to_bytes(bucket), actors=near)
                except ClusterLostError:
                    raise
                except RuntimeError as error:  # containers may forbid access to others' memory
                    _log.warning("weights go through the host: CUDA IPC does not work: %s", error)
                    self._gpu = None
            if others := [actor for actor in calls.actors if not self._shares_gpu(actor)]:
                calls.ask("take_weights", self._cluster.put(bucket), actors=others)

    def _shares_gpu(self, actor: ActorHandle) -> bool:
        info = actor.info
        return info is not None and self._gpu is not None and (info.node, info.gpu) == self._gpu

    def _check_of(self, handle: ActorHandle) -> WeightCheck:
        actor, check = self._checks.get(handle, (None, None))
        if check is None or actor is not handle.actor:
            assert handle.info is not None
            check = WeightCheck(handle.info.packed_weights)
            self._checks[handle] = (handle.actor, check)
        return check


class ActorCalls:
    """Calls to several actors at once; a lost actor is left out from then on."""

    def __init__(
        self, cluster: RayCluster, actors: Sequence[ActorHandle], timeout: float | None
    ) -> None:
        self._cluster, self.actors, self._timeout = cluster, list(actors), timeout
        self.lost: dict[ActorHandle, str] = {}

    def ask(
        self, method: str, *args: Any, actors: Sequence[ActorHandle] | None = None
    ) -> dict[ActorHandle, Any]:
        """Call a method of ``actors``, by default of all; return the answer of each."""
        asked = self.actors if actors is None else actors
        calls = [(actor, self._cluster.call(actor.actor, method, *args)) for actor in asked]
        end = None if self._timeout is None else time.monotonic() + self._timeout
        answers: dict[ActorHandle, Any] = {}
        for actor, call in calls:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not self._cluster.ready([call], left):
                self._lose(actor, f"took more than {self._timeout:g} s to take its weights")
                continue
            try:
                answers[actor] = self._cluster.result(call)
            except ClusterLostError:
                raise
            except (ActorLostError, EngineError) as error:
                self._lose(actor, str(error))
        return answers

    def _lose(self, actor: ActorHandle, why: str) -> None:
        self.lost[actor] = why
        self.actors = [each for each in self.actors if each is not actor]
