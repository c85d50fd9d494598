"""``SamplerGroup``: many players behind the calls of one ``Sampler``.

Tasks are cut into lots by id, lots are dealt to actors, and what comes back is joined in id order:
the batch is the same whoever played it. An actor that dies, or takes too long, is replaced, given
the present weights, and plays its lots again from their seeds; nothing of a lot counts until all of
it is there, so no episode is lost or counted twice, and ``play`` looks.

With ``staleness`` k the lots of the next k iterations are dealt as well before those of this one
are waited for, so actors play on while the learner learns. They take new weights between two
replies (``turnstile``), each turn says which version sampled it, and the learner weighs every token
by the policy that really did (``training.importance_cap``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, cast

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.registry.sources import EnvSource
from llm_gym_agents.build import build_policy
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.cluster import ActorLostError, ClusterLostError, RayCluster
from llm_gym_agents.distributed.engine import MemberEngine
from llm_gym_agents.distributed.envs import EnvHost
from llm_gym_agents.distributed.host import Facts, Played, SamplerHost, setup_of
from llm_gym_agents.distributed.in_process import InProcess
from llm_gym_agents.distributed.members import Cluster, Lot, Member
from llm_gym_agents.distributed.watch import GroupWatch, staleness_of
from llm_gym_agents.distributed.weights import Broadcast
from llm_gym_agents.engines.base import Engine, EngineError
from llm_gym_agents.lm.served_weights import served_weights
from llm_gym_agents.rollouts.lots import joined, lots_of
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Rollout, episode_id

Agenda = Callable[[int], Sequence[EpisodeTask]]
"""The training episodes of an iteration; none after the last."""


class SamplerGroup:
    """Plays named episodes on many actors.

    Args:
        config: Of the run; ``ray`` says how many actors, where, and what each takes.
        lm: Whose weights they play with; read at every push.
        tokenizer: Of the model.
        env: What is played.
        held_out: Other environments to evaluate on.
    """

    def __init__(
        self,
        config: ConfigStore,
        lm: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        env: EnvSource,
        held_out: EnvSource | None = None,
    ) -> None:
        self.config, self._tokenizer = config, tokenizer
        self.cluster: Cluster = InProcess() if config.ray.in_process else RayCluster(config.ray)
        self.agenda: Agenda | None = None
        """Says what will be played, for playing ahead."""
        self._ahead: dict[int, list[Lot]] = {}
        self._env_hosts: list[Any] = []
        self.version = 0
        """Of the weights that every actor has."""
        self.watch = GroupWatch()
        self.members = [Member(index) for index in range(config.ray.num_actors)]
        self._broadcast = Broadcast(self.cluster, lm, config.ray.bucket_mb)
        try:
            names = [name for name, _ in served_weights(lm)]
            setup = setup_of(config, lm, tokenizer, env, held_out, names)
            hosts = self._env_hosts = self.cluster.start_hosts(EnvHost)
            self._setup = self.cluster.put(setup._replace(env_hosts=tuple(hosts)))
            self._start(self.members)
        except BaseException:
            self.close()
            raise

    # --- what a Sampler says of itself -----------------------------------------------------

    @property
    def _facts(self) -> Facts:
        facts = self.members[0].facts
        assert facts is not None
        return facts

    @property
    def env_id(self) -> str | None:
        """Of the environments, if they are registered."""
        return self._facts.env_id

    @property
    def has_splits(self) -> bool:
        """Whether the environments know training instances from held-out ones."""
        return self._facts.has_splits

    @property
    def engine(self) -> MemberEngine:
        """The engine of the first actor, as far as it can be asked from here."""
        return MemberEngine(self.cluster, self.members[0])

    @cached_property
    def policy(self) -> LLMPolicy:
        """The policy that every actor plays, for those who look at how it reads."""
        return build_policy(self.config, cast(Engine, self.engine), self._tokenizer)

    # --- playing ---------------------------------------------------------------------------

    def play(
        self,
        tasks: Sequence[EpisodeTask],
        version: int | None = None,
        *,
        greedy: bool = False,
        held_out: bool = False,
    ) -> Rollout:
        """Play ``tasks`` to their ends; see ``Sampler.play``."""
        if version is not None and version != self.version:
            raise EngineError(
                f"these episodes must be played with weights of version {version}, got actors with "
                f"version {self.version}; publish them first"
            )
        trains = version is not None and not greedy and not held_out
        lots = self._dealt_ahead(tasks, version) if trains else None
        if lots is None:
            exact = version if not self.config.ray.staleness else None
            lots = self._deal(tasks, exact, greedy, held_out)
        if trains:
            self._deal_ahead(self.version)
        try:
            self._await(lots)
        except BaseException:
            _drop(lots)
            raise
        rollout = joined([lot.played for lot in lots if lot.played is not None])
        _check_ids(tasks, rollout)
        if trains:
            found = staleness_of(rollout, self.version, self.config.ray.staleness)
            self.watch.note(self.members, found)
        return rollout

    def _deal(
        self,
        tasks: Sequence[EpisodeTask],
        version: int | None,
        greedy: bool = False,
        held_out: bool = False,
    ) -> list[Lot]:
        """Give tasks to the actors, lot by lot."""
        size = self.config.inference.lot_size or -(-len(tasks) // len(self.members)) or None
        lots = [Lot(each, version, greedy, held_out) for each in lots_of(tasks, size)]
        for at, lot in enumerate(lots):
            member = self.members[at % len(self.members)]
            if not member.lots:
                member.since = time.monotonic()
            member.lots.append(lot)
            self._send(member, lot)
        return lots

    def _send(self, member: Member, lot: Lot) -> None:
        lot.call = self.cluster.call(member.actor, "play", *lot.arguments)

    def _deal_ahead(self, version: int) -> None:
        for iteration in range(version + 1, version + 1 + self.config.ray.staleness):
            if self.agenda and iteration not in self._ahead and (tasks := self.agenda(iteration)):
                self._ahead[iteration] = self._deal(tasks, None)

    def _dealt_ahead(self, tasks: Sequence[EpisodeTask], version: int | None) -> list[Lot] | None:
        """Return the lots of this iteration, if they were dealt before."""
        lots = self._ahead.pop(version or 0, None)
        known = {task.id for lot in lots or () for task in lot.tasks}
        return lots if known == {task.id for task in tasks} else None

    def _await(self, lots: Sequence[Lot]) -> None:
        """Wait until every one of ``lots`` is played, whatever happens to the actors."""
        timeout = self.config.ray.timeout
        while any(lot.played is None for lot in lots):
            busy = [member for member in self.members if member.lots]
            left = [at for member in busy if (at := member.overdue_in(timeout)) is not None]
            calls = [member.lots[0].call for member in busy]
            ready = self.cluster.ready(calls, max(0.0, min(left)) if left else None)
            for member, call in zip(busy, calls, strict=True):
                overdue = member.overdue_in(timeout)
                if call in ready:
                    self._settle(member)
                elif overdue is not None and overdue <= 0:
                    self._replace(member, f"took more than {timeout:g} s for its episodes")

    def _settle(self, member: Member) -> None:
        try:
            played: Played = self.cluster.result(member.lots[0].call)
        except ClusterLostError:
            raise
        except Exception as error:
            if not member.lots[0].wanted and not isinstance(error, ActorLostError):
                member.lots.popleft()
            elif isinstance(error, EngineError):  # the actor is gone, or its engine is
                self._replace(member, str(error))
            else:
                raise
        else:
            member.finish(played)

    # --- weights ---------------------------------------------------------------------------

    def push(self, version: int) -> int:
        """Give every actor the present weights; return how many weights were compared."""
        if version < self.version:  # the run went back to an older state: what is ahead is not it
            for lots in self._ahead.values():
                _drop(lots)
            self._ahead.clear()
        lost = self._broadcast.to(self.members, version, self.config.ray.timeout)
        self.version = version
        for member, why in lost.items():
            self._replace(member, why)
        return self._broadcast.compared

    def forget(self) -> None:
        """Empty what engines keep of earlier prompts."""
        if self.config.ray.staleness:
            return  # they are playing, and are not held to the last bits
        for call in [self.cluster.call(each.actor, "forget") for each in self.members]:
            with suppress(ActorLostError):  # noticed, and replaced, when it is to play
                self.cluster.result(call)

    # --- life and death --------------------------------------------------------------------

    def _start(self, members: Sequence[Member]) -> None:
        for member in members:
            member.facts = None
            member.actor = self.cluster.start(SamplerHost, self._setup, member.name)
        # Each vLLM measures how much of its card is free, and must not see another one grow.
        shares_a_card = 0 < (self.config.ray.num_gpus_per_actor or 0) < 1
        for some in [[member] for member in members] if shares_a_card else [members]:
            calls = [self.cluster.call(member.actor, "build") for member in some]
            for member, call in zip(some, calls, strict=True):
                member.facts = self.cluster.result(call)

    def _replace(self, member: Member, why: str) -> None:
        """Put another actor in the place of one that is lost, and give it the same lots."""
        while True:
            words = self.cluster.last_words(member.facts.pid) if member.facts else ""
            self.cluster.kill(member.actor)
            member.deaths += 1
            if member.deaths > self.config.ray.max_restarts:
                raise EngineError(
                    f"{member.name} was lost {member.deaths} times in a row, and ray.max_restarts "
                    f"is {self.config.ray.max_restarts}: {why}"
                    + (f"; its last lines:\n{words}" if words else "")
                )
            self.watch.lost(member, why)
            try:
                self._start([member])
                if lost := self._broadcast.to([member], self.version, self.config.ray.timeout):
                    why = lost[member]
                    continue
                break
            except ActorLostError as error:
                why = str(error)
        member.since = time.monotonic()
        member.lots = deque(lot for lot in member.lots if lot.wanted)
        for lot in member.lots:
            self._send(member, lot)

    def close(self) -> None:
        """End every actor, and the cluster if it was started here. Safe to call twice."""
        members, self.members = self.members, []
        actors = [member.actor for member in members if member.actor is not None]
        for actor in [*actors, *self._env_hosts]:
            with suppress(EngineError):
                self.cluster.kill(actor)
        self.cluster.close()


def _drop(lots: Sequence[Lot]) -> None:
    """Note that nobody waits for these any more; whoever plays them plays them to their ends."""
    for lot in lots:
        lot.wanted = False


def _check_ids(tasks: Sequence[EpisodeTask], rollout: Rollout) -> None:
    """Raise unless every task came back, and none of them twice."""
    ids = [episode_id(episode) for episode in rollout.all_episodes]
    if ids != sorted(task.id for task in tasks):
        raise EngineError(
            f"every one of {len(tasks)} episodes must come back once, got {len(ids)} with "
            f"{len(set(ids))} different ids"
        )
