"""New weights for every actor: cast once, sent bucket by bucket, proven on every engine.

A bucket is put into the object store once, whatever the number of actors; Ray sends it to each
machine once. The next is cast only when every actor has taken it and it is dropped, so there is
never more than one bucket in the store. From a learner on a GPU buckets are one buffer, filled
again and again: actors on its own card read it there by a handle (CUDA IPC), those on other cards
get it in a process group with the learner (NCCL).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from llm_gym_agents.distributed.carriers import ByGroup, ByHandle, through_store
from llm_gym_agents.distributed.cluster import BUCKET_BYTES
from llm_gym_agents.distributed.engine import MemberEngine
from llm_gym_agents.distributed.host import Sums
from llm_gym_agents.distributed.members import Cluster, Member
from llm_gym_agents.distributed.push import Push
from llm_gym_agents.distributed.routes import backend_of, routes_of
from llm_gym_agents.engines.base import StaleWeightsError
from llm_gym_agents.engines.weight_check import WeightCheck
from llm_gym_agents.engines.weight_push import buckets, flat_buckets
from llm_gym_agents.engines.weight_sums import PendingSums

Weights = Callable[[], AbstractContextManager[Iterator[tuple[str, Tensor]]]]
"""Opens the present weights of a learner, which may be read one after the other."""


class Broadcast:
    """Sends the weights of a learner to actors.

    Args:
        cluster: Where they live.
        weights: Opens what is sent, see ``Lead.weights``.
        device: Where the learner is.
    """

    def __init__(self, cluster: Cluster, weights: Weights, device: torch.device) -> None:
        self._cluster, self._weights, self._device = cluster, weights, device
        self._bytes = BUCKET_BYTES
        self._handle, self._group = ByHandle(), ByGroup(cluster, backend_of(device))
        self._checks: dict[Member, tuple[Any, WeightCheck]] = {}
        """What was seen of each actor's engine so far."""
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
        push = Push(self._cluster, members, timeout)
        sums = PendingSums()
        push.ask("begin_weights")
        self.buckets = 0
        with self._weights() as named:
            self._send(push, _cast(named, members, sums))
        read = push.ask("end_weights", version)
        self.compared = 0
        for member, found in read.items():
            self.compared = self._check(member, sums, found, version)
        self.proven = all(self._checks[member][1].proven for member in read)
        return push.lost

    def _send(self, push: Push, named: Iterator[tuple[str, Tensor]]) -> None:
        """Send all of ``named``, in each actor's way."""
        way = routes_of(push.members, self._device)
        if not way.handle and not way.group:  # on a CPU nothing is copied on the way to the store
            for bucket in buckets(named, self._bytes):
                through_store(self._cluster, push, bucket)
                self.buckets += 1
            return
        self._group.meet(push, way.group)
        for flat in flat_buckets(named, self._bytes):
            left = [*self._handle.carry(push, flat, way.handle), *way.store]
            left += self._group.carry(push, flat, way.group)
            if left:
                through_store(self._cluster, push, flat.named(), left)
            self.buckets += 1

    def close(self) -> None:
        """Leave the group that weights go through, if there is one."""
        self._group.close()

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


def _cast(
    named: Iterator[tuple[str, Tensor]], members: Sequence[Member], sums: PendingSums
) -> Iterator[tuple[str, Tensor]]:
    """Yield weights as the engines keep them, and note what they are."""
    facts = members[0].facts
    assert facts is not None
    for name, weight in named:
        own = weight.detach()
        cast = own.to(facts.dtypes.get(name) or weight.dtype)
        sums.add(name, cast, stays=cast is not own)  # a copy is nobody else's
        yield name, cast
