"""``SamplerHost``: what runs inside an actor that plays. Nothing here knows Ray.

It holds the very ``Sampler`` that plays in process, built by the same function from the same
config. Its model begins as a skeleton, of the learner's shape; weights come in buckets. Two threads
call it: one plays, the other brings weights, and a swap_lock keeps them apart.
"""

from __future__ import annotations

import copy
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.registry.sources import EnvSource
from llm_gym_agents.build import build_sampler, device_of, prepare_lm
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.parcels import Parcel, opened
from llm_gym_agents.distributed.weight_group import GroupBrokenError, Meeting, WeightGroup
from llm_gym_agents.engines.base import Completion, Request
from llm_gym_agents.engines.weight_push import Flat, Named, Spot
from llm_gym_agents.engines.weight_sums import WeightSum
from llm_gym_agents.model.precision import compute_dtype
from llm_gym_agents.model.weights import plain_lm
from llm_gym_agents.rollouts.policy import WeightSwapLock
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Rollout

VLLM_SHARE = 0.9
"""Of the part of a GPU that an actor is given, what vLLM may take."""


class Setup(NamedTuple):
    """All that an actor needs to play like everyone else."""

    config: ConfigStore
    shape: Any
    """The config of the model."""
    generation: Any
    """Its generation config, which names the ids that end a reply."""
    dtype: torch.dtype
    tokenizer: PreTrainedTokenizerBase
    env: EnvSource
    held_out: EnvSource | None
    names: tuple[str, ...]
    """Of the weights that will be sent."""


class Facts(NamedTuple):
    """What is to be known of an actor."""

    pid: int
    node: str
    gpu: str | None
    """Which card, by its own number; None on a CPU."""
    env_id: str | None
    has_splits: bool
    context_length: int
    dtype: torch.dtype | None
    """That the engine computes in, where it says so."""
    dtypes: dict[str, torch.dtype | None]
    """That each weight is kept in."""
    packed_weights: dict[str, Sequence[str]]


class Played(NamedTuple):
    """A lot that was played."""

    rollout: Rollout
    busy_s: float


class Sums(NamedTuple):
    """Read back from an engine after new weights, see ``Engine.weight_sums``."""

    sums: Sequence[dict[str, WeightSum]] | None
    marks: dict[str, str] | None


def setup_of(
    config: ConfigStore,
    lm: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    env: EnvSource,
    held_out: EnvSource | None,
    names: Sequence[str],
) -> Setup:
    """Return what actors need to play with the weights of ``lm``."""
    own = copy.deepcopy(config)
    # They sample with merged weights, in the precision that the learner computes in.
    own.model.lora_rank, own.model.gradient_checkpointing = 0, False
    own.parallel.mode = "none"
    computed = compute_dtype(config.model.dtype, lm.device)
    own.model.dtype = str(computed).removeprefix("torch.")  # type: ignore[assignment]
    if config.inference.backend == "vllm" and config.ray.num_gpus_per_actor:
        share = VLLM_SHARE * min(1.0, config.ray.num_gpus_per_actor)
        own.inference.engine = {"gpu_memory_utilization": share} | own.inference.engine
    plain = plain_lm(lm)
    generation = getattr(plain, "generation_config", None)
    return Setup(own, plain.config, generation, plain.dtype, tokenizer, env, held_out, tuple(names))


def skeleton(setup: Setup) -> PreTrainedModel:
    """Return a model of the learner's shape, whose weights are still to come."""
    trust = setup.config.model.trust_remote_code
    with torch.random.fork_rng():  # in one process with the learner, its numbers are the learner's
        lm: PreTrainedModel = AutoModelForCausalLM.from_config(
            setup.shape, dtype=setup.dtype, trust_remote_code=trust
        )
    if setup.generation is not None:
        lm.generation_config = setup.generation
    if setup.config.inference.backend == "transformers":
        lm.to(device=device_of(setup.config.model.device))  # type: ignore[call-arg]
    return prepare_lm(setup.config, lm).requires_grad_(False)


class SamplerHost:
    """Plays lots of episodes, and takes new weights in between."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.group: WeightGroup | None = None
        """That weights come through, if they do not come by themselves."""

    def build(self) -> Facts:
        """Build engine and environments; say where this is, and what it is like.

        Not done when it is made: what an environment raises is told as it is by a call only.
        """
        setup = self._setup
        if threads := int(setup.config.ray.num_cpus_per_actor):
            torch.set_num_threads(threads)
        self.sampler = build_sampler(
            setup.config,
            skeleton(setup),
            setup.tokenizer,
            setup.env,
            setup.held_out,
        )
        self.swap_lock = self.sampler.policy.swap_lock = WeightSwapLock()
        engine = self.sampler.engine
        return Facts(
            pid=os.getpid(),
            node=socket.gethostname(),
            gpu=_card() if torch.cuda.is_available() else None,
            env_id=self.sampler.env_id,
            has_splits=self.sampler.has_splits,
            context_length=engine.context_length,
            dtype=getattr(engine, "dtype", None),
            dtypes={name: engine.weight_dtype(name) for name in setup.names},
            packed_weights=dict(engine.packed_weights),
        )

    def play(
        self, tasks: Sequence[EpisodeTask], version: int | None, greedy: bool, held_out: bool
    ) -> Played:
        """Play a lot; ``version`` is that of the weights, or None where it may change meanwhile."""
        start = time.perf_counter()
        with self.swap_lock.playing():
            rollout = self.sampler.play(tasks, version, greedy=greedy, held_out=held_out)
        return Played(rollout, time.perf_counter() - start)

    # --- weights: called by name, by ``weights.Broadcast`` and ``carriers`` ----------------

    def begin_weights(self) -> None:
        """Wait until nothing is sampled, and keep it so until ``end_weights``."""
        self.swap_lock.acquire()
        self.sampler.engine.wake()

    def take_weights(self, parcel: Parcel) -> None:
        """Put some of the new weights into the engine."""
        self._load(opened(parcel))

    def join_weights(self, meeting: Meeting, rank: int) -> bool:
        """Join a group that weights come through; say whether all of it is there."""
        if self.group is not None:
            self.group.close()
            self.group = None
        with suppress(GroupBrokenError):
            self.group = WeightGroup(meeting, rank)
        return self.group is not None

    def receive_weights(self, size: int, spots: list[Spot]) -> bool:
        """Put what comes through the group into the engine; say whether it came."""
        try:
            assert self.group is not None
            buffer = self.group.receive(size)
        except GroupBrokenError:
            self.group = None
            return False
        self._load(Flat(buffer, spots).named())
        return True

    def _load(self, bucket: Named | bytes) -> None:
        self.sampler.engine.load_bucket(bucket)
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the buffer is used again when this returns

    def end_weights(self, version: int) -> Sums:
        """Go on with the new weights; say which ones the engine has now."""
        engine = self.sampler.engine
        try:
            engine.finish_loading(version)
            sums, marks = engine.weight_sums(), None
            if sums is None:
                marks = engine.weight_marks()
            return Sums(
                None if sums is None else [dict(each) for each in sums],
                None if marks is None else dict(marks),
            )
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
        """Empty what the engine keeps of earlier prompts."""
        self.sampler.engine.forget()

    def close(self) -> None:
        """End environments and engine."""
        # One that was never built has nothing, and an engine that failed is closed, not used.
        with suppress(RuntimeError, AttributeError):
            self.sampler.close()


def _card() -> str:
    return str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
