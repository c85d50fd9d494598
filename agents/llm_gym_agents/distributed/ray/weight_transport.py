"""``WeightTransport``: send new weights to every actor, and check that each engine holds them.

Weights are cast once to what the engines keep and sent bucket by bucket. Actors on the learner's
own GPU read each bucket there (CUDA IPC). All others get it through Ray's object store: it is put
there once, and Ray sends it to each machine once. The next bucket is made when every actor has
taken the last, so there is never more than one in the store.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from llm_gym_agents.distributed.ray.actor import ActorHandle, gpu_uuid
from llm_gym_agents.distributed.ray.cluster import ActorLostError, ClusterLostError, RayCluster
from llm_gym_agents.engines.base import EngineError, StaleWeightsError
from llm_gym_agents.engines.weight_check import WeightCheck, cast_and_sum
from llm_gym_agents.engines.weight_push import BUCKET_BYTES, buckets, to_bytes
from llm_gym_agents.engines.weight_sums import PendingSums

Weights = Callable[[], AbstractContextManager[Iterator[tuple[str, Tensor]]]]
"""Opens the present weights of the learner, which are then read one by one."""
_log = logging.getLogger(__name__)


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
        """Send the present weights; return the actors that were lost meanwhile, and why.

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
    """Calls to several actors at once; an actor that is lost is left out from then on."""

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
