"""How a bucket gets to actors: by a handle on the learner's card, in a group, through the store.

Each way takes a bucket to some actors of a push. Two of them can fail where others do not: a
container may keep processes out of each other's GPU memory, and a group breaks with any of its
members. Who has not got a bucket for such a reason gets it through the object store, which always
works, and so does whatever comes after it in that push.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from llm_gym_agents.distributed.calls import ClusterLostError
from llm_gym_agents.distributed.members import Cluster, Member
from llm_gym_agents.distributed.parcels import wrapped
from llm_gym_agents.distributed.push import Push
from llm_gym_agents.distributed.weight_group import Backend, GroupBrokenError, WeightGroup
from llm_gym_agents.engines.weight_push import Flat, Named, handle_of

_log = logging.getLogger(__name__)


def through_store(
    cluster: Cluster, push: Push, bucket: Named, members: Sequence[Member] | None = None
) -> None:
    """Put a bucket where each machine fetches it once, and wait until all have taken it."""
    parcel = cluster.put(wrapped(bucket))
    push.ask("take_weights", parcel, members=members)
    del parcel  # the next may be put there


class ByHandle:
    """Actors on the learner's own card read the buffer there (CUDA IPC)."""

    def __init__(self) -> None:
        self.works = True
        """Whether processes on one card can read each other's memory, as far as is known."""

    def carry(self, push: Push, flat: Flat, members: Sequence[Member]) -> list[Member]:
        """Send a bucket; return who has not got it."""
        if self.works and members:
            try:
                push.ask("take_weights", handle_of(flat), members=members)
            except ClusterLostError:
                raise
            except RuntimeError as error:  # some containers keep processes out of each other's
                _log.warning("weights go through the host: no access to the card's: %s", error)
                self.works = False
        return [] if self.works else list(members)


class ByGroup:
    """Actors in a process group with the learner, made anew when one of them is another.

    Args:
        cluster: Where they live.
        backend: What the group talks over.
    """

    def __init__(self, cluster: Cluster, backend: Backend) -> None:
        self._cluster, self._backend = cluster, backend
        self._group: WeightGroup | None = None
        self._actors: list[object] = []
        self.made = 0
        """Groups so far."""

    def carry(self, push: Push, flat: Flat, members: Sequence[Member]) -> list[Member]:
        """Send a bucket; return who has not got it."""
        if not members or (group := self._group) is None:
            return list(members)
        calls = push.begin("receive_weights", len(flat.buffer), flat.spots, members=members)
        try:
            group.broadcast(flat.buffer)
        except GroupBrokenError as error:
            _log.warning("weights go through the host: their group is broken: %s", error)
            self.close()
        said = push.answers(calls)
        if not all(said.values()) or len(said) < len(members):
            self.close()
        return [member for member in members if not said.get(member)]

    def meet(self, push: Push, members: Sequence[Member]) -> None:
        """Have ``members`` in one group with this process, unless they are."""
        actors = [member.actor for member in members]
        if self._group is not None and self._actors == actors:
            return
        self.close()
        if not members:
            return
        meeting, store = WeightGroup.open(self._cluster.address(), len(members) + 1, self._backend)
        calls: dict[Member, Any] = {}
        for rank, member in enumerate(members, start=1):
            calls |= push.begin("join_weights", meeting, rank, members=[member])
        try:
            self._group, self._actors = WeightGroup(meeting, 0, store), actors
            self.made += 1
        except GroupBrokenError as error:
            _log.warning("weights go through the host: no group of actors: %s", error)
        if not all(push.answers(calls).values()):
            self.close()

    def close(self) -> None:
        """End the group."""
        group, self._group, self._actors = self._group, None, []
        if group is not None:
            group.close()
