"""New weights for every actor: cast once, sent bucket by bucket, proven on every engine.

A bucket is put into the object store once, whatever the number of actors; Ray sends it to each
machine once. The next is cast only when every actor has taken it and it is dropped, so there is
never more than one bucket in the store. Actors on the learner's own GPU read it there by a handle
(CUDA IPC). Between different GPUs weights go through the host's memory: vLLM's own NCCL group
(``init_weight_transfer_engine``) would need a process group with the learner in it, which is not
built.
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

from llm_gym_agents.distributed.cluster import ActorLostError, ClusterLostError
from llm_gym_agents.distributed.engine import MemberEngine
from llm_gym_agents.distributed.host import Sums
from llm_gym_agents.distributed.members import Cluster, Member
from llm_gym_agents.distributed.parcels import wrapped
from llm_gym_agents.engines.base import EngineError, StaleWeightsError
from llm_gym_agents.engines.weight_check import WeightCheck
from llm_gym_agents.engines.weight_push import Named, buckets, flat_handle
from llm_gym_agents.engines.weight_sums import PendingSums

Weights = Callable[[], AbstractContextManager[Iterator[tuple[str, Tensor]]]]
"""Opens the present weights of a learner, which may be read one after the other."""
_log = logging.getLogger(__name__)


class Broadcast:
    """Sends the weights of a learner to actors.

    Args:
        cluster: Where they live.
        weights: Opens what is sent, see ``Lead.weights``.
        bucket_mb: Megabytes that travel at a time.
    """

    def __init__(self, cluster: Cluster, weights: Weights, bucket_mb: int) -> None:
        self._cluster, self._weights, self._bytes = cluster, weights, bucket_mb * 2**20
        self._checks: dict[Member, tuple[Any, WeightCheck]] = {}
        """What was seen of each actor's engine so far."""
        self._handles = True
        """Whether processes on one card can read each other's memory, as far as is known."""
        self.compared = 0
        """Weights whose sums were compared in the last push, on each actor."""
        self.proven = False
        """Whether that was all of them, on all."""
        self.buckets = 0
        """Buckets of the last push."""

    def to(
        self, members: Sequence[Member], version: int, timeout: float | None = None
    ) -> dict[Member, str]:
        """Send the present weights; return the actors that were lost meanwhile, and how.

        Raises ``StaleWeightsError`` if an engine does not hold what it was sent.
        """
        push = _Push(self._cluster, members, timeout)
        sums = PendingSums()
        push.ask("begin_weights")
        self.buckets = 0
        with self._weights() as named:
            for bucket in buckets(_cast(named, members, sums), self._bytes):
                self._send(push, bucket)
                self.buckets += 1
        read = push.ask("end_weights", version)
        self.compared = 0
        for member, found in read.items():
            self.compared = self._check(member, sums, found, version)
        self.proven = all(self._checks[member][1].proven for member in read)
        return push.lost

    def _send(self, push: _Push, bucket: Named) -> None:
        here, away = _by_place(push.members, bucket[0][1]) if self._handles else ([], push.members)
        if here:
            flat, handle = flat_handle(bucket)
            try:
                push.ask("take_weights", handle, members=here)
            except RuntimeError as error:  # some containers keep processes out of each other's
                _log.warning("weights go through the host: no access to the card's: %s", error)
                self._handles, away = False, push.members
            del flat
        if away:
            parcel = self._cluster.put(wrapped(bucket))
            push.ask("take_weights", parcel, members=away)
            del parcel

    def _check(self, member: Member, sums: PendingSums, found: Sums, version: int) -> int:
        actor, check = self._checks.get(member, (None, None))
        if check is None or actor is not member.actor:
            check = WeightCheck(MemberEngine(self._cluster, member))  # type: ignore[arg-type]
            self._checks[member] = (member.actor, check)
        engine: Any = check.engine
        engine.version, engine.sums, engine.marks = version, found.sums, found.marks
        try:
            compared = check.against(sums)
        except StaleWeightsError as error:
            raise StaleWeightsError(f"{member.name}: {error}") from error
        check.confirm()
        return compared


class _Push:
    """One push: calls to all actors at once; those that are lost are left out from then on."""

    def __init__(self, cluster: Cluster, members: Sequence[Member], timeout: float | None) -> None:
        self._cluster, self.members = cluster, list(members)
        self._timeout = timeout
        self.lost: dict[Member, str] = {}

    def ask(
        self, method: str, *args: Any, members: Sequence[Member] | None = None
    ) -> dict[Member, Any]:
        """Have actors do something; return what each said."""
        asked = self.members if members is None else members
        calls = {
            member: self._cluster.call(member.actor, method, *args)
            for member in asked
            if member not in self.lost
        }
        end = None if self._timeout is None else time.monotonic() + self._timeout
        said: dict[Member, Any] = {}
        for member, call in calls.items():
            left = None if end is None else max(0.0, end - time.monotonic())
            if not self._cluster.ready([call], left):
                self._lose(member, f"took more than {self._timeout:g} s to take its weights")
                continue
            try:
                said[member] = self._cluster.result(call)
            except ClusterLostError:
                raise
            except (ActorLostError, EngineError) as error:
                self._lose(member, str(error))
        return said

    def _lose(self, member: Member, why: str) -> None:
        self.lost[member] = why
        self.members = [each for each in self.members if each is not member]


def _cast(
    named: Iterator[tuple[str, Tensor]], members: Sequence[Member], sums: PendingSums
) -> Iterator[tuple[str, Tensor]]:
    """Yield weights as the engines keep them, and note what they are."""
    facts = members[0].facts
    assert facts is not None
    for name, weight in named:
        cast = weight.detach().to(facts.dtypes.get(name) or weight.dtype)
        sums.add(name, cast)
        yield name, cast


def _by_place(members: Sequence[Member], weight: Tensor) -> tuple[list[Member], list[Member]]:
    """Return the actors on the card that ``weight`` is on, and the others."""
    if not weight.is_cuda:
        return [], list(members)
    card = (socket.gethostname(), str(torch.cuda.get_device_properties(weight.device).uuid))
    here = [each for each in members if each.facts and (each.facts.node, each.facts.gpu) == card]
    return here, [each for each in members if each not in here]
