"""``MemberEngine``: an actor's engine, as far as the trainer asks it from here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_gym_agents.distributed.members import Cluster, Member
from llm_gym_agents.engines.base import Completion, Request


class MemberEngine:
    """What publishing and a warm start want to know of an engine.

    Args:
        cluster: Where the actor lives.
        member: Whose engine it is.
    """

    shares_model = False

    def __init__(self, cluster: Cluster, member: Member) -> None:
        self._cluster, self._member = cluster, member
        facts = member.facts
        assert facts is not None
        self.context_length = facts.context_length
        self.packed_weights = facts.packed_weights
        if facts.dtype is not None:
            self.dtype = facts.dtype
        self.version = 0
        self.sums: Any = None
        self.marks: Any = None

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request."""
        call = self._cluster.call(self._member.actor, "generate", list(requests))
        found: list[Completion] = self._cluster.result(call)
        return found

    def weight_sums(self) -> Any:
        """Return what the engine read back after its last weights."""
        return self.sums

    def weight_marks(self) -> Any:
        """Return the marks that it read back instead."""
        return self.marks
