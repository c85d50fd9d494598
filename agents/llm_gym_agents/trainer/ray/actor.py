"""``SamplerActor``, which runs inside a Ray actor, and its ``ActorHandle``. Needs no Ray.

It holds the same ``Sampler`` as a run in one process, built by the same function from the same
config. Its model starts with the learner's shape and random weights; the learner then sends the
weights in buckets. One thread plays, another updates the weights, and a lock separates them.
"""

from __future__ import annotations

import copy
import os
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.registry.sources import EnvSource
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.engines.base import Completion, Request
from llm_gym_agents.engines.weight_push import Bucket, WeightSum
from llm_gym_agents.model.weights import compute_dtype, plain_lm
from llm_gym_agents.rollouts.policy import WeightSwapLock
from llm_gym_agents.rollouts.tasks import EpisodeTask, Rollout
from llm_gym_agents.trainer.build import build_sampler, device_of, prepare_lm

if TYPE_CHECKING:
    from llm_gym_agents.trainer.ray.cluster import RayCluster

VLLM_SHARE = 0.9
"""Share of an actor's part of a GPU that vLLM may use."""


class ActorSetup(NamedTuple):
    """What an actor needs to build its sampler."""

    config: ConfigStore
    shape: Any
    """The config of the model."""
    generation: Any
    """Generation config of the model, with the ids that end a reply."""
    dtype: torch.dtype
    tokenizer: PreTrainedTokenizerBase
    env: EnvSource
    held_out: EnvSource | None
    names: tuple[str, ...]
    """Names of the weights that will be sent."""


class ActorInfo(NamedTuple):
    """Facts about an actor's engine."""

    pid: int
    node: str
    gpu: str | None
    """UUID of the actor's GPU; None on a CPU."""
    env_id: str | None
    has_splits: bool
    context_length: int
    dtype: torch.dtype | None
    """Precision in which the engine computes, if known."""
    dtypes: dict[str, torch.dtype | None]
    """Precision in which the engine keeps each weight."""
    packed_weights: dict[str, Sequence[str]]


class ActorResult(NamedTuple):
    """An actor's episodes, and the time that they took."""

    rollout: Rollout
    busy_s: float


def actor_setup(
    config: ConfigStore,
    lm: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    env: EnvSource,
    held_out: EnvSource | None,
    names: Sequence[str],
) -> ActorSetup:
    """Return the setup of actors that play with the weights of ``lm``."""
    own = copy.deepcopy(config)
    # They sample with merged weights, in the precision in which the learner computes.
    own.model.lora_rank, own.model.gradient_checkpointing = 0, False
    own.parallel.mode = "none"
    computed = compute_dtype(config.model.dtype, lm.device)
    own.model.dtype = str(computed).removeprefix("torch.")  # type: ignore[assignment]
    if config.inference.backend == "vllm" and config.ray.num_gpus_per_actor:
        share = VLLM_SHARE * min(1.0, config.ray.num_gpus_per_actor)
        own.inference.engine = {"gpu_memory_utilization": share} | own.inference.engine
    plain = plain_lm(lm)
    generation = getattr(plain, "generation_config", None)
    return ActorSetup(
        own, plain.config, generation, plain.dtype, tokenizer, env, held_out, tuple(names)
    )


class SamplerActor:
    """Plays shards of episodes, and receives new weights in between."""

    def __init__(self, setup: ActorSetup) -> None:
        self._setup = setup

    def build(self) -> ActorInfo:
        """Build engine and environments.

        Not done in ``__init__``: Ray reports an environment's own error only from a call.
        """
        setup = self._setup
        torch.set_num_threads(1)  # an actor has one CPU core
        self.sampler = build_sampler(
            setup.config, _untrained_model(setup), setup.tokenizer, setup.env, setup.held_out
        )
        self.swap_lock = self.sampler.policy.swap_lock = WeightSwapLock()
        engine = self.sampler.engine
        return ActorInfo(
            pid=os.getpid(),
            node=socket.gethostname(),
            gpu=gpu_uuid() if torch.cuda.is_available() else None,
            env_id=self.sampler.env_id,
            has_splits=self.sampler.has_splits,
            context_length=engine.context_length,
            dtype=getattr(engine, "dtype", None),
            dtypes={name: engine.weight_dtype(name) for name in setup.names},
            packed_weights=dict(engine.packed_weights),
        )

    def play(
        self, tasks: Sequence[EpisodeTask], version: int | None, held_out: bool
    ) -> ActorResult:
        """Play ``tasks`` with weights of ``version``; with None they may change meanwhile."""
        start = time.perf_counter()
        with self.swap_lock.playing():
            rollout = self.sampler.play(tasks, version, held_out=held_out)
        return ActorResult(rollout, time.perf_counter() - start)

    # --- weights: called by name, by ``WeightTransport`` ---------------------------------

    def begin_weights(self) -> None:
        """Wait until sampling stops, and block it until ``end_weights``."""
        self.swap_lock.acquire()
        self.sampler.engine.wake()

    def take_weights(self, bucket: Bucket | bytes) -> None:
        self.sampler.engine.load_bucket(bucket)
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the sender reuses its buffer when this returns

    def end_weights(self, version: int) -> Mapping[str, WeightSum] | None:
        """Continue with the new weights; return their checksums, read back from the engine."""
        engine = self.sampler.engine
        try:
            engine.finish_loading(version)
            return engine.weight_sums()
        finally:
            self.swap_lock.release()

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Reply to a few prompts, for the probe."""
        self.swap_lock.acquire()
        try:
            return self.sampler.engine.generate(requests)
        finally:
            self.swap_lock.release()

    def forget(self) -> None:
        self.sampler.engine.forget()

    def close(self) -> None:
        # An actor that was never built has no sampler, and an engine that failed is closed.
        with suppress(RuntimeError, AttributeError):
            self.sampler.close()


def gpu_uuid(device: torch.device | None = None) -> str:
    """Return the UUID of a GPU of this process, by default of the current one."""
    at = torch.cuda.current_device() if device is None else device
    return str(torch.cuda.get_device_properties(at).uuid)


def _untrained_model(setup: ActorSetup) -> PreTrainedModel:
    trust = setup.config.model.trust_remote_code
    with torch.random.fork_rng():  # a test runs actors in the learner's process
        lm: PreTrainedModel = AutoModelForCausalLM.from_config(
            setup.shape, dtype=setup.dtype, trust_remote_code=trust
        )
    if setup.generation is not None:
        lm.generation_config = setup.generation
    if setup.config.inference.backend == "transformers":
        lm.to(device=device_of(setup.config.model.device))
    return prepare_lm(setup.config.model, lm).requires_grad_(False)


# --- an actor as the trainer sees it -------------------------------------------------------


@dataclass(eq=False)
class EpisodeShard:
    """Episodes that one actor plays together."""

    tasks: list[EpisodeTask]
    version: int | None
    """Required version of the weights; None if they may change meanwhile."""
    held_out: bool = False
    call: Any = None
    played: Rollout | None = None
    wanted: bool = True
    """False when its result is no longer needed."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.tasks, self.version, self.held_out


@dataclass(eq=False)
class ActorHandle:
    """An actor, its queue of shards, and its statistics."""

    index: int
    actor: Any = None
    info: ActorInfo | None = None
    """None while the actor starts."""
    shards: deque[EpisodeShard] = field(default_factory=deque)
    """Assigned and unfinished shards, oldest first; the actor plays the first one."""
    since: float = 0.0
    """Latest possible time at which the actor began its first shard."""
    deaths: int = 0
    """Deaths in a row without a finished shard."""
    longest_s: float = 0.0
    """Longest time for a shard, in seconds."""
    tokens: int = 0
    busy_s: float = 0.0

    @property
    def name(self) -> str:
        return f"sampler {self.index}"

    def overdue_in(self, timeout: float | None) -> float | None:
        """Return the seconds until its first shard is overdue; None without a time limit.

        The limit is at least twice the longest time so far, and doubles after each loss.
        """
        if timeout is None or not self.shards:
            return None
        limit: float = max(timeout, 2 * self.longest_s) * 2**self.deaths
        return self.since + limit - time.monotonic()

    def finish(self, result: ActorResult) -> None:
        shard = self.shards.popleft()
        shard.played = result.rollout
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self.since)
        self.deaths, self.since = 0, now
        self.tokens += result.rollout.tokens
        self.busy_s += result.busy_s


class ActorEngine:
    """An actor's engine, as the trainer sees it in the probe and the warm start.

    Without a cluster it only offers the facts in ``info``.
    """

    shares_model = False

    def __init__(
        self, info: ActorInfo, cluster: RayCluster | None = None, actor: Any = None
    ) -> None:
        self._cluster, self._actor = cluster, actor
        self.context_length, self.version = info.context_length, 0
        if info.dtype is not None:
            self.dtype = info.dtype

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        assert self._cluster is not None
        call = self._cluster.call(self._actor, "generate", list(requests))
        found: list[Completion] = self._cluster.result(call)
        return found
