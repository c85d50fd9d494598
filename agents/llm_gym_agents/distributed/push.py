"""``Push``: calls to many actors at once; whoever is lost meanwhile is left out from then on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from llm_gym_agents.distributed.calls import ActorLostError, ClusterLostError
from llm_gym_agents.distributed.members import Cluster, Member
from llm_gym_agents.engines.base import EngineError


class Push:
    """One round of new weights.

    Args:
        cluster: Where the actors live.
        members: Who is asked.
        timeout: Seconds that one of them may take to answer; None for any.
    """

    def __init__(self, cluster: Cluster, members: Sequence[Member], timeout: float | None) -> None:
        self._cluster, self.members = cluster, list(members)
        self._timeout = timeout
        self.lost: dict[Member, str] = {}

    def ask(
        self, method: str, *args: Any, members: Sequence[Member] | None = None
    ) -> dict[Member, Any]:
        """Have actors do something; return what each said."""
        return self.answers(self.begin(method, *args, members=members))

    def begin(
        self, method: str, *args: Any, members: Sequence[Member] | None = None
    ) -> dict[Member, Any]:
        """Have actors begin with something."""
        return {
            member: self._cluster.call(member.actor, method, *args)
            for member in (self.members if members is None else members)
            if member not in self.lost
        }

    def answers(self, calls: dict[Member, Any]) -> dict[Member, Any]:
        """Return what each said, of those who did."""
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
