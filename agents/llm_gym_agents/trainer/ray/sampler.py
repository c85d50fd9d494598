"""``RaySampler``: many actors behind the interface of one ``Sampler``.

Tasks are split into shards by id, actors play the shards, and the results are joined in id order,
so the batch does not depend on which actor played what. The shards of a lost actor are played again
from their seeds (``actor_pool``). Only complete shards count, so no episode is lost or counted
twice; ``play`` checks that.

With ``staleness`` k, actors also get the shards of the next k iterations before the results of this
one are awaited, so they play while the learner learns. They take new weights between two replies.
Each turn says which version sampled it, and the learner weights every token by the policy that
sampled it (``training.importance_cap``).

If the learner has several processes, only the main one has actors. The others wait for its result
and help to gather weights (``MainRank``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.core.errors import LLMGymError
from llm_gym.registry.sources import EnvSource
from llm_gym_agents.config import ConfigStore, RayConfig
from llm_gym_agents.engines.base import Engine, EngineError
from llm_gym_agents.engines.publish import CHECKED, PROBE_GAP, PUBLISH_SECONDS, WeightPublisher
from llm_gym_agents.engines.weight_check import Probe
from llm_gym_agents.learn.single_process import SingleProcess
from llm_gym_agents.model.weights import is_sharded, served_names, served_weights
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.sampler import require_version
from llm_gym_agents.rollouts.tasks import (
    EpisodeTask,
    Rollout,
    episode_id,
    join_rollouts,
    split_tasks,
)
from llm_gym_agents.trainer.build import build_policy, device_of
from llm_gym_agents.trainer.ray.actor import (
    ActorEngine,
    ActorHandle,
    ActorInfo,
    ActorResult,
    EpisodeShard,
    actor_setup,
)
from llm_gym_agents.trainer.ray.actor_pool import ActorPool, gpu_assignment
from llm_gym_agents.trainer.ray.cluster import ActorLostError, ClusterLostError, RayCluster

T = TypeVar("T")
_WEIGHTS, _WAIT = "weights", "wait"
HEARTBEAT_S = 20.0
"""Seconds between two messages to the processes that wait."""
Upcoming = Callable[[int], Sequence[EpisodeTask]]
"""The training tasks of an iteration; none after the last."""


def ray_players(
    config: ConfigStore,
    lm: PreTrainedModel,
    ranks: SingleProcess,
    tokenizer: PreTrainedTokenizerBase,
    env: EnvSource,
    held_out: EnvSource | None,
) -> tuple[RaySampler, RayPublisher]:
    """Start the actors that ``config.ray`` asks for; they have no weights yet."""
    main = MainRank(ranks, lm)

    def start() -> ActorPool:
        learners = 0
        if config.parallel.mode != "none":
            learners = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        device = torch.device(device_of(config.model.device))
        cluster = RayCluster(config.ray, gpu_assignment(config.ray, device, learners))
        setup = actor_setup(config, lm, tokenizer, env, held_out, served_names(lm))
        return ActorPool(cluster, setup, config.ray, main.weights, lm.device)

    make_policy = partial(build_policy, config, tokenizer=tokenizer)
    sampler = RaySampler(main, start, make_policy, config.ray, config.inference.isolated_batch_size)
    # A sharded model cannot be read outside its learner, so it cannot be probed.
    probed = config.inference.backend != "transformers" and not is_sharded(lm)
    return sampler, RayPublisher(sampler, main, Probe(lm) if probed else None)


class RaySampler:
    """Plays named episodes on many actors."""

    def __init__(
        self,
        main: MainRank,
        start: Callable[[], ActorPool],
        make_policy: Callable[[Engine], LLMPolicy],
        settings: RayConfig,
        shard_size: int | None,
    ) -> None:
        self._main, self._make_policy = main, make_policy
        self._settings, self._shard_size = settings, shard_size
        self.upcoming: Upcoming | None = None
        """Tells which tasks come next, for playing ahead."""
        self.actor_pool: ActorPool | None = None
        """None outside the main process."""
        self.metrics: dict[str, float] = {}
        """Of the last training batch."""
        self._ahead: dict[int, list[EpisodeShard]] = {}

        def begin() -> ActorInfo:
            self.actor_pool = start()
            return self.pool.info

        self._info = main.run_on_main(begin)
        self.env_id, self.has_splits = self._info.env_id, self._info.has_splits

    @property
    def pool(self) -> ActorPool:
        assert self.actor_pool is not None
        return self.actor_pool

    @cached_property
    def policy(self) -> LLMPolicy:
        """A policy like that of every actor, for its chat format and limits."""
        return self._make_policy(cast(Engine, ActorEngine(self._info)))

    # --- playing ---------------------------------------------------------------------------

    def play(
        self, tasks: Sequence[EpisodeTask], version: int | None = None, *, held_out: bool = False
    ) -> Rollout:
        return self._main.run_on_main(lambda: self._play(tasks, version, held_out))

    def _play(self, tasks: Sequence[EpisodeTask], version: int | None, held_out: bool) -> Rollout:
        pool, staleness = self.pool, self._settings.staleness
        require_version(version, pool.version)
        trains = version is not None and not held_out
        shards = self._ahead.pop(version or 0, []) if trains else []
        ids = sorted(task.id for task in tasks)
        if sorted(task.id for shard in shards for task in shard.tasks) != ids:  # not given ahead
            shards = self._give(tasks, None if staleness else version, held_out)
        if trains and self.upcoming is not None:
            for iteration in range(pool.version + 1, pool.version + 1 + staleness):
                if iteration not in self._ahead and (later := self.upcoming(iteration)):
                    self._ahead[iteration] = self._give(later, None)
        try:
            self._await(shards)
        except BaseException:
            _drop(shards)
            raise
        rollout = join_rollouts([shard.played for shard in shards if shard.played is not None])
        found = [episode_id(episode) for episode in rollout.all_episodes]
        if found != ids:
            raise EngineError(
                f"every one of {len(tasks)} episodes must come back once, got {len(found)} with "
                f"{len(set(found))} different ids"
            )
        if trains:
            self.metrics = staleness_metrics(rollout, pool.version, staleness)
            self.metrics |= pool.batch_metrics()
        return rollout

    def _give(
        self, tasks: Sequence[EpisodeTask], version: int | None, held_out: bool = False
    ) -> list[EpisodeShard]:
        actors = self.pool.actors
        size = self._shard_size or -(-len(tasks) // len(actors)) or None
        split = split_tasks(tasks, size)
        shards = [EpisodeShard(each, version, held_out) for each in split]
        for at, shard in enumerate(shards):
            self.pool.assign(actors[at % len(actors)], shard)
        return shards

    def _await(self, shards: Sequence[EpisodeShard]) -> None:
        """Wait until all ``shards`` are played, and replace actors that are lost or too slow."""
        timeout, cluster = self._settings.timeout, self.pool.cluster
        while any(shard.played is None for shard in shards):
            busy = [actor for actor in self.pool.actors if actor.shards]
            left = [at for actor in busy if (at := actor.overdue_in(timeout)) is not None]
            calls = [actor.shards[0].call for actor in busy]
            ready = cluster.ready(calls, max(0.0, min([HEARTBEAT_S, *left])))
            self._main.heartbeat()
            for actor, call in zip(busy, calls, strict=True):
                overdue = actor.overdue_in(timeout)
                if call in ready:
                    self._finish(actor)
                elif overdue is not None and overdue <= 0:
                    self.pool.replace(actor, f"took more than {timeout:g} s, as never before")

    def _finish(self, actor: ActorHandle) -> None:
        try:
            result: ActorResult = self.pool.cluster.result(actor.shards[0].call)
        except ClusterLostError:
            raise
        except Exception as error:
            if not actor.shards[0].wanted and not isinstance(error, ActorLostError):
                actor.shards.popleft()
            elif isinstance(error, EngineError):  # the actor is gone, or its engine is
                self.pool.replace(actor, str(error))
            else:
                raise
        else:
            actor.finish(result)

    # --- weights ---------------------------------------------------------------------------

    def push(self, version: int) -> int:
        # Other weights under a version that was pushed: what was played ahead is of no use.
        if version <= self.pool.version:
            for shards in self._ahead.values():
                _drop(shards)
            self._ahead.clear()
        return self.pool.push(version)

    def forget(self) -> None:
        if not self._settings.staleness:  # else they are playing, and last bits may differ anyway
            self.pool.forget()

    def close(self) -> None:
        if self.actor_pool is not None:
            self.actor_pool.close()


class RayPublisher(WeightPublisher):
    """Keeps every actor on the trained weights."""

    def __init__(self, sampler: RaySampler, main: MainRank, probe: Probe | None) -> None:
        self._sampler, self._main, self._probe = sampler, main, probe

    def _publish(self, version: int) -> dict[str, float]:
        """Send every actor the current weights; return metrics of this and of the last batch."""
        return self._main.run_on_main(lambda: self._push(version))

    def _push(self, version: int) -> dict[str, float]:
        start = time.perf_counter()
        metrics: dict[str, float] = {CHECKED: self._sampler.push(version)}
        pool = self._sampler.pool
        if self._probe_is_due(pool.transport.proven) and self._probe is not None:
            engine = ActorEngine(pool.info, pool.cluster, pool.actors[0].actor)
            engine.version = version
            metrics[PROBE_GAP] = self._probe.check(cast(Engine, engine))
        metrics[PUBLISH_SECONDS] = time.perf_counter() - start
        return metrics | self._sampler.metrics

    def empty_cache(self) -> None:
        self._main.run_on_main(self._sampler.forget)


# --- a learner over several processes ------------------------------------------------------


class _Outcome(NamedTuple, Generic[T]):
    value: T | None = None
    error: LLMGymError | None = None


class MainRank:
    """Runs work in the main process of ``ranks``, which hold the weights of ``lm``.

    All processes must take part in gathering sharded weights, but only the main process knows when
    they are needed, for example after the loss of an actor. In a run of one process ``run_on_main``
    is a plain call.
    """

    def __init__(self, ranks: SingleProcess, lm: PreTrainedModel) -> None:
        self._ranks, self._lm = ranks, lm
        self._gathers = ranks.world > 1 and is_sharded(lm)
        self._last_beat = time.monotonic()

    def run_on_main(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the main process; return or raise its outcome in every process."""
        outcome: _Outcome[T] = self._work(work) if self._ranks.is_main else self._follow()
        if outcome.error is not None:
            raise outcome.error
        return outcome.value  # type: ignore[return-value]

    def _work(self, work: Callable[[], T]) -> _Outcome[T]:
        outcome: _Outcome[T]
        try:
            outcome = _Outcome(work())
        except LLMGymError as error:
            outcome = _Outcome(error=error)
        except Exception as error:
            with suppress(RuntimeError):  # the others may be gone
                self._ranks.broadcast(_Outcome(error=EngineError(f"the main process: {error!r}")))
            raise
        self._ranks.broadcast(outcome)
        return outcome

    def _follow(self) -> _Outcome[T]:
        message: Any = None
        while not isinstance(message, _Outcome):
            message = self._ranks.broadcast(None)
            if message == _WEIGHTS:
                for _ in served_weights(self._lm):
                    pass
        return message

    @contextmanager
    def weights(self) -> Iterator[Iterator[tuple[str, Tensor]]]:
        """Within this block of ``run_on_main``, the current weights can be read one by one."""
        if self._gathers:
            self._ranks.broadcast(_WEIGHTS)
        named = served_weights(self._lm)
        try:
            yield named
        finally:
            for _ in named if self._gathers else ():  # the others gather all of them
                pass

    def heartbeat(self) -> None:
        """Tell the waiting processes from time to time that the work goes on."""
        now = time.monotonic()
        if self._ranks.world > 1 and now - self._last_beat > HEARTBEAT_S:
            self._last_beat = now
            self._ranks.broadcast(_WAIT)


def staleness_metrics(rollout: Rollout, version: int, allowed: int) -> dict[str, float]:
    """Return the staleness of a batch in versions; refuse more than ``allowed``.

    The mean is over tokens.
    """
    lags = [(version - turn.version, len(turn.reply_ids)) for own in rollout.turns for turn in own]
    most = max((lag for lag, _ in lags), default=0)
    if most > allowed:
        raise EngineError(
            f"a batch may be {allowed} versions old (ray.staleness), got tokens that are {most}; "
            "nothing was trained on them"
        )
    tokens = sum(count for _, count in lags)
    mean = sum(lag * count for lag, count in lags) / max(tokens, 1)
    return {"ray/staleness_mean": mean, "ray/staleness_max": most}


def _drop(shards: Sequence[EpisodeShard]) -> None:
    """Mark these shards as unneeded; an actor still plays them to the end."""
    for shard in shards:
        shard.wanted = False
