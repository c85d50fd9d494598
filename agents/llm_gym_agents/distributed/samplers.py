"""``SamplerGroup``: many players behind the calls of one ``Sampler``.

Tasks are cut into lots by id, lots are dealt to actors, and what comes back is joined in id order:
the batch is the same whoever played it. The lots of an actor that is lost are played again from
their seeds by the one in its place (``crew``); nothing of a lot counts until all of it is there, so
no episode is lost or counted twice, and ``play`` looks.

With ``staleness`` k the lots of the next k iterations are dealt as well before those of this one
are waited for, so actors play on while the learner learns. They take new weights between two
replies (``swap_lock``), each turn says which version sampled it, and the learner weighs every token
by the policy that really did (``training.importance_cap``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import cast

from transformers import PreTrainedTokenizerBase

from llm_gym_agents.build import build_policy
from llm_gym_agents.distributed.calls import ActorLostError, ClusterLostError
from llm_gym_agents.distributed.crew import Crew
from llm_gym_agents.distributed.engine import MemberEngine
from llm_gym_agents.distributed.host import Played
from llm_gym_agents.distributed.lead import BEAT_S, Lead
from llm_gym_agents.distributed.members import Cluster, Lot, Member
from llm_gym_agents.distributed.watch import GroupWatch, staleness_of
from llm_gym_agents.engines.base import Engine, EngineError
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.sampler import require_version
from llm_gym_agents.rollouts.tasks import EpisodeTask, split_tasks
from llm_gym_agents.rollouts.turns import Rollout, episode_id, join_rollouts

Agenda = Callable[[int], Sequence[EpisodeTask]]
"""The training episodes of an iteration; none after the last."""


class SamplerGroup:
    """Plays named episodes on many actors.

    Args:
        crew: The actors, which are closed with this.
        tokenizer: Of the model.
        lead: Keeps those informed who learn with this process.
    """

    def __init__(self, crew: Crew, tokenizer: PreTrainedTokenizerBase, lead: Lead) -> None:
        self.crew, self.config = crew, crew.config
        self._tokenizer, self._lead = tokenizer, lead
        self.agenda: Agenda | None = None
        """Says what will be played, for playing ahead."""
        self._ahead: dict[int, list[Lot]] = {}

    # --- what a Sampler says of itself -----------------------------------------------------

    @property
    def env_id(self) -> str | None:
        """Of the environments, if they are registered."""
        return self.crew.facts.env_id

    @property
    def has_splits(self) -> bool:
        """Whether the environments know training instances from held-out ones."""
        return self.crew.facts.has_splits

    @property
    def engine(self) -> MemberEngine:
        """The engine of the first actor, as far as it can be asked from here."""
        return MemberEngine(self.cluster, self.members[0])

    @cached_property
    def policy(self) -> LLMPolicy:
        """The policy that every actor plays, for those who look at how it reads."""
        return build_policy(self.config, cast(Engine, self.engine), self._tokenizer)

    # --- and of its actors -----------------------------------------------------------------

    @property
    def cluster(self) -> Cluster:
        """Where they live."""
        return self.crew.cluster

    @property
    def members(self) -> list[Member]:
        """One for each actor."""
        return self.crew.members

    @property
    def version(self) -> int:
        """Of the weights that every actor has."""
        return self.crew.version

    @property
    def proven(self) -> bool:
        """Whether each weight of the last push was compared on each of them, by its bits."""
        return self.crew.broadcast.proven

    @property
    def watch(self) -> GroupWatch:
        """How they do."""
        return self.crew.watch

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
        require_version(version, self.version)
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
        rollout = join_rollouts([lot.played for lot in lots if lot.played is not None])
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
        size = (
            self.config.inference.isolated_batch_size or -(-len(tasks) // len(self.members)) or None
        )
        lots = [Lot(each, version, greedy, held_out) for each in split_tasks(tasks, size)]
        for at, lot in enumerate(lots):
            member = self.members[at % len(self.members)]
            if not member.lots:
                member.since = time.monotonic()
            member.lots.append(lot)
            self.crew.send(member, lot)
        return lots

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
            ready = self.cluster.ready(calls, max(0.0, min([BEAT_S, *left])))
            self._lead.still_at_work()
            for member, call in zip(busy, calls, strict=True):
                overdue = member.overdue_in(timeout)
                if call in ready:
                    self._settle(member)
                elif overdue is not None and overdue <= 0:
                    self.crew.replace(member, f"took more than {timeout:g} s for its episodes")

    def _settle(self, member: Member) -> None:
        try:
            played: Played = self.cluster.result(member.lots[0].call)
        except ClusterLostError:
            raise
        except Exception as error:
            if not member.lots[0].wanted and not isinstance(error, ActorLostError):
                member.lots.popleft()
            elif isinstance(error, EngineError):  # the actor is gone, or its engine is
                self.crew.replace(member, str(error))
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
        return self.crew.push(version)

    def forget(self) -> None:
        """Empty what engines keep of earlier prompts."""
        if not self.config.ray.staleness:  # else they are playing, and not held to the last bits
            self.crew.forget()

    def close(self) -> None:
        """End every actor, and the cluster if it was started here. Safe to call twice."""
        self.crew.close()


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
