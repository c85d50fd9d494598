"""``Crew``: the actors that play, alive and with the present weights.

An actor that dies, or takes too long, is replaced, given the present weights, and sent its lots
again. After too many deaths in a row the run ends, with the last lines that the actor wrote.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.registry.sources import EnvSource
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.calls import ActorLostError
from llm_gym_agents.distributed.cards import players_cards
from llm_gym_agents.distributed.cluster import RayCluster
from llm_gym_agents.distributed.host import Facts, SamplerHost, setup_of
from llm_gym_agents.distributed.lead import Lead
from llm_gym_agents.distributed.members import Cluster, Lot, Member
from llm_gym_agents.distributed.watch import GroupWatch
from llm_gym_agents.distributed.weights import Broadcast
from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.model.weights import served_names

MAX_RESTARTS = 3
"""Replacements of an actor in a row, without an episode from it, before the run ends."""


class Crew:
    """Actors, kept alive.

    Args:
        config: Of the run; ``ray`` says how many actors, where, and what each takes.
        lm: What they play with, read at every push through ``lead``.
        tokenizer: Of the model.
        env: What is played.
        held_out: Other environments to evaluate on.
        lead: Brings the weights of the learner together.
    """

    def __init__(
        self,
        config: ConfigStore,
        lm: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        env: EnvSource,
        held_out: EnvSource | None,
        lead: Lead,
    ) -> None:
        self.config = config
        self.cluster: Cluster = RayCluster(config.ray, players_cards(config))
        self.members = [Member(index) for index in range(config.ray.num_actors)]
        self.version = 0
        """Of the weights that every actor has."""
        self.watch = GroupWatch()
        self.broadcast = Broadcast(self.cluster, lead.weights, lm.device)
        try:
            setup = setup_of(config, lm, tokenizer, env, held_out, served_names(lm))
            self._setup = self.cluster.put(setup)
            self._start(self.members)
        except BaseException:
            self.close()
            raise

    @property
    def facts(self) -> Facts:
        """What is to be known of each of them, as the first says it."""
        facts = self.members[0].facts
        assert facts is not None
        return facts

    def send(self, member: Member, lot: Lot) -> None:
        """Have an actor play a lot, after those that it has."""
        lot.call = self.cluster.call(member.actor, "play", *lot.arguments)

    def push(self, version: int) -> int:
        """Give every actor the present weights; return how many weights were compared."""
        lost = self.broadcast.to(self.members, version, self.config.ray.timeout)
        self.version = version
        for member, why in lost.items():
            self.replace(member, why)
        return self.broadcast.compared

    def forget(self) -> None:
        """Empty what engines keep of earlier prompts."""
        for call in [self.cluster.call(each.actor, "forget") for each in self.members]:
            with suppress(ActorLostError):  # noticed, and replaced, when it is to play
                self.cluster.result(call)

    def _start(self, members: Sequence[Member]) -> None:
        for member in members:
            member.facts = None
            member.actor = self.cluster.start(SamplerHost, self._setup, member.name)
        for some in [[member] for member in members] if self._one_by_one else [members]:
            calls = [self.cluster.call(member.actor, "build") for member in some]
            for member, call in zip(some, calls, strict=True):
                member.facts = self.cluster.result(call)

    @property
    def _one_by_one(self) -> bool:
        """Whether engines must not see each other grow.

        A vLLM that is told to take a share of a card measures how much of it is free.
        """
        shares_a_card = 0 < (self.config.ray.num_gpus_per_actor or 0) < 1
        return shares_a_card and "cache_gb" not in self.config.inference.engine

    def replace(self, member: Member, why: str) -> None:
        """Put another actor in the place of one that is lost, and give it the same lots."""
        while True:
            facts = member.facts
            words = self.cluster.last_words(member.actor, facts.pid) if facts else ""
            self.cluster.kill(member.actor)
            member.deaths += 1
            if member.deaths > MAX_RESTARTS:
                why = _with_words(why, words)
                raise EngineError(f"{member.name} was lost {member.deaths} times in a row: {why}")
            self.watch.lost(member, _with_words(why, words))
            try:
                self._start([member])
                if lost := self.broadcast.to([member], self.version, self.config.ray.timeout):
                    why = lost[member]
                    continue
                break
            except ActorLostError as error:
                why = str(error)
        member.since = time.monotonic()
        member.lots = deque(lot for lot in member.lots if lot.wanted)
        for lot in member.lots:
            self.send(member, lot)

    def close(self) -> None:
        """End every actor, and the cluster if it was started here. Safe to call twice."""
        self.broadcast.close()
        members, self.members = self.members, []
        actors = [member.actor for member in members if member.actor is not None]
        for actor in actors:
            with suppress(EngineError):
                self.cluster.kill(actor)
        self.cluster.close()


def _with_words(why: str, words: str) -> str:
    return f"{why}; its last lines:\n{words}" if words else why
