"""``ProcessGroup``: the processes of a learner, one per GPU, as ``torchrun`` starts them.

Every process holds the whole batch on its CPU and reads a part of the episodes. Results are summed
over the processes, so advantages, counts and stops are equal everywhere without further messages.
Every process holds all weights (``ddp``) or a shard of them (``fsdp``). Processes never disagree
about a stop, a failure or a checkpoint: these are agreed on here.

A checkpoint is one folder, which any number of processes can resume from. Each process writes its
shards; the language model is also written as the usual Hugging Face folder, gathered tensor by
tensor. The main process makes and seals the folder. All processes must see the same disk.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedModel

from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym_agents.learn.single_process import SigtermListener, SingleProcess
from llm_gym_agents.rollouts.sampler import Player
from llm_gym_agents.rollouts.tasks import EpisodeTask, Rollout, join_rollouts
from llm_gym_agents.run.checkpoint_folder import new_folder
from llm_gym_agents.run.checkpoint_weights import save_lm, write_shards
from llm_gym_agents.run.checkpoints import (
    ADAPTERS,
    MODEL,
    SHARDS,
    Checkpoints,
    TrainerState,
    named_tensors,
    save_checkpoint,
    write_values,
)
from llm_gym_agents.run.metrics import ITERATION, MetricsLog, Row

T = TypeVar("T")
Mode = Literal["ddp", "fsdp"]
TIMEOUT = timedelta(minutes=30)
"""Maximum time that processes wait for one another."""
_LOST = ("Connection closed by", "Connection reset by", "Broken pipe", "Timed out waiting")
"""gloo's messages when another process is gone; NCCL's errors have their own type."""


class LostRankError(LLMGymError, RuntimeError):
    """Another process of the learner is gone."""


class ProcessGroup(SingleProcess):
    """The processes of a group, seen from one of them.

    Args:
        mode: ``ddp`` keeps all weights in every process and sums gradients; ``fsdp`` shards
            weights, gradients and optimizer state.
        device: Where this process computes.
    """

    def __init__(self, mode: Mode, device: torch.device) -> None:
        self.mode, self.device = mode, device
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.is_main = self.rank == 0
        self.loss_scale = float(self.world)  # DDP and FSDP average gradients; an update adds them
        self._mesh = init_device_mesh(device.type, (self.world,))
        self._replicas: list[DistributedDataParallel] = []

    def shard(self, model: nn.Module, compute_dtype: torch.dtype) -> None:
        """Shard the weights of ``model`` in place, under ``fsdp``."""
        if self.mode == "fsdp":
            shard_model(model, self._mesh, compute_dtype)

    def wrap(self, model: nn.Module) -> nn.Module:
        if self.mode == "fsdp":
            return model
        replica = DistributedDataParallel(model)
        self._replicas.append(replica)
        return replica

    def equalize(self, model: nn.Module) -> None:
        """Copy the main process's weights to every process; shards stay unchanged."""
        if self.mode == "ddp":
            for weight in model.state_dict().values():
                dist.broadcast(weight, src=0)

    def gradient_sync(self, last: bool) -> AbstractContextManager[Any]:
        """Within this block DDP sums gradients only if ``last``; FSDP always does."""
        if last or not self._replicas:
            return nullcontext()
        return self._replicas[-1].no_sync()

    def assign(self, costs: Sequence[int]) -> list[int]:
        return balance(costs, self.world)[self.rank]

    def all_sum(self, values: Tensor) -> Tensor:
        summed = values.clone()
        dist.all_reduce(summed)
        return summed

    def all_max(self, number: int) -> int:
        found = torch.tensor(number)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def broadcast(self, value: Any) -> Any:
        held = [value]
        dist.broadcast_object_list(held, src=0)
        return held[0]

    def gather(self, work: Callable[[], T]) -> list[T]:
        found: T | LLMGymError
        try:
            found = work()
        except LLMGymError as error:
            found = error
        parts: list[Any] = [None] * self.world
        dist.all_gather_object(parts, found)
        for each in parts:
            if isinstance(each, LLMGymError):
                raise each
        return parts

    def barrier(self) -> None:
        """Wait for all processes."""
        dist.barrier()

    # --- files and signals ---------------------------------------------------------------

    def checkpoints(self, folder: Path, **options: Any) -> Checkpoints:
        return RankCheckpoints(folder, self, **options)

    def save_checkpoint(self, folder: str | Path, state: TrainerState, **model: Any) -> Path:
        return save_sharded(folder, state, ranks=self, **model)

    def log(self, folder: Path, **options: Any) -> MetricsLog:
        """Return the metrics log; outside the main process it only keeps the rows in memory."""
        log = MetricsLog(folder, **options) if self.is_main else None
        rows = self.broadcast(None if log is None else log.rows)
        return log or NullLog(rows)

    def stop(self) -> SigtermListener:
        """Return a listener that reacts to SIGTERM in any of the processes."""
        return AgreedStop(self)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within this block the loss of another process raises ``LostRankError``."""
        try:
            yield
        except RuntimeError as error:
            lost = type(error).__name__.startswith("Dist") or any(x in str(error) for x in _LOST)
            if not lost:
                raise
            raise LostRankError(
                f"process {self.rank} of {self.world} has lost another process of its group; this "
                "iteration is lost. torchrun --max-restarts restarts from the last checkpoint, "
                "and so does llm-gym resume"
            ) from error


class NullLog(MetricsLog):
    """Keeps the rows of a run in memory, starting with the main process's rows."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)

    def log(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        self.rows.append({ITERATION: iteration, **metrics})


class AgreedStop(SigtermListener):
    """Stops all processes after the same iteration, whichever process got the signal."""

    def __init__(self, ranks: SingleProcess) -> None:
        super().__init__()
        self._ranks, self._signalled = ranks, False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._signalled = True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Play to the end like the other processes, then agree on whether to stop."""
        yield
        self.requested = bool(self._ranks.all_max(int(self._signalled)))


# --- checkpoints ---------------------------------------------------------------------------


def save_sharded(
    folder: str | Path,
    state: TrainerState,
    *,
    lm: PreTrainedModel,
    tokenizer: Any = None,
    ranks: ProcessGroup,
) -> Path:
    """Write a checkpoint; every process calls it and returns when the folder is in its place."""
    place = Path(folder)
    # Generators differ between processes; the main one's decide the batches.
    state.parts["rng"] = ranks.broadcast(state.parts.get("rng"))
    spread = any(isinstance(each, DTensor) for each in named_tensors(state.parts).values())
    if not spread:
        if ranks.is_main:
            save_checkpoint(place, state, lm=lm, tokenizer=tokenizer)
        ranks.barrier()
        return place
    with new_folder(place) if ranks.is_main else nullcontext() as made:
        new = Path(ranks.broadcast(str(made)))
        parts = dict(state.parts)
        adapters = save_lm(new / MODEL, lm, tokenizer, write=ranks.is_main)
        if adapters is not None:
            parts[ADAPTERS] = adapters
        write_shards(new / SHARDS, named_tensors(parts))
        if ranks.is_main:
            write_values(new, state, parts)
        ranks.barrier()
    ranks.barrier()
    return place


class RankCheckpoints(Checkpoints):
    """``Checkpoints`` in which only the main process removes or links folders."""

    def __init__(self, folder: str | Path, ranks: ProcessGroup, **options: Any) -> None:
        super().__init__(folder, write=ranks.save_checkpoint, **options)
        self._ranks = ranks

    def save(self, state: TrainerState, *, lm: PreTrainedModel, tokenizer: Any = None) -> Path:
        self._ranks.barrier()  # everyone has listed the folder by now
        if self._ranks.is_main:
            place = super().save(state, lm=lm, tokenizer=tokenizer)
        else:
            place = self.write(self._place(state), state, lm=lm, tokenizer=tokenizer)
        self._ranks.barrier()
        return place

    def put_apart(self, source: Path, place: Path, card: str) -> None:
        if self._ranks.is_main:
            super().put_apart(source, place, card)
        self._ranks.barrier()

    def drop_after(self, iteration: int) -> None:
        if self._ranks.is_main:
            super().drop_after(iteration)
        self._ranks.barrier()


# --- models and processes ------------------------------------------------------------------


def balance(costs: Sequence[int], groups: int) -> list[list[int]]:
    """Split items into groups of similar cost: the most expensive first, to the cheapest group.

    Items keep their order within a group, and the split depends on the costs alone.

    >>> balance([5, 1, 1, 3], 2)
    [[0], [1, 2, 3]]
    """
    found: list[list[int]] = [[] for _ in range(groups)]
    loads = [0] * groups
    for at in sorted(range(len(costs)), key=lambda at: (-costs[at], at)):
        lightest = loads.index(min(loads))
        found[lightest].append(at)
        loads[lightest] += costs[at]
    return [sorted(group) for group in found]


def shard_model(model: nn.Module, mesh: DeviceMesh, compute_dtype: torch.dtype) -> None:
    """Shard the weights of ``model`` over ``mesh`` in place with FSDP2, layer by layer.

    A layer is gathered when it is called, so a process holds one whole layer at a time. Embeddings,
    head and critic are gathered for a whole pass. Only the model's ``forward`` may be called.
    Weights and gradients stay in float32; layers are gathered in ``compute_dtype``.
    """
    policy = MixedPrecisionPolicy()
    if compute_dtype != torch.float32:
        policy = MixedPrecisionPolicy(param_dtype=compute_dtype, reduce_dtype=torch.float32)
    # It warns about changing the model's output in place, which nobody does.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
    # The layers of every language model in it: what transformers never splits.
    names = {
        name for each in model.modules() for name in getattr(each, "_no_split_modules", None) or ()
    }
    for layer in model.modules():
        if type(layer).__name__ in names:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
    # Resharded after each pass too: code that writes weights must find the sharded ones.
    fully_shard(model, mesh=mesh, reshard_after_forward=True)


def join(mode: Mode, *, device: str = "auto") -> ProcessGroup:
    """Join the process group that ``torchrun`` describes; every process must call it.

    The device ``auto`` is the GPU of this process's local rank, if there are GPUs.
    """
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR") if name not in os.environ]
    if missing:
        raise ConfigError(
            f"parallel.mode={mode!r} needs one process for each GPU, got {' and '.join(missing)} "
            "unset; start it with: torchrun --nproc-per-node 2 -m llm_gym train ..."
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.device(device)
    if where.type == "cuda":
        where = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if where.index >= torch.cuda.device_count():
            raise ConfigError(
                f"every process needs a GPU of its own, got process {where.index} of a machine "
                f"with {torch.cuda.device_count()}; lower --nproc-per-node, or model.device=cpu"
            )
        torch.cuda.set_device(where)
    if not dist.is_initialized():
        # Batches are shared on the CPU, gradients on the GPU.
        backend = "cpu:gloo,cuda:nccl" if where.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=TIMEOUT, **_fresh_store())
    return ProcessGroup(mode, where)


def _fresh_store() -> dict[str, Any]:
    """Return a separate store for restarted processes.

    ``torchrun --standalone`` keeps one store over its restarts (torch 2.13), and the addresses of
    dead processes are still in it.
    """
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if not attempt:
        return {}
    store, rank, world = next(rendezvous("env://", timeout=TIMEOUT))
    apart = PrefixStore(f"attempt-{attempt}", store)
    return {"store": apart, "rank": rank, "world_size": world}


class RankSampler:
    """Plays like a ``Sampler``, together with the samplers of the other processes."""

    def __init__(self, own: Player, ranks: SingleProcess) -> None:
        self._own, self._ranks = own, ranks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def play(
        self, tasks: Sequence[EpisodeTask], version: int | None = None, **options: bool
    ) -> Rollout:
        """Play ``tasks`` to the end; a failure in one process is raised in all."""
        own = self._ranks.share(tasks)

        def play() -> Rollout:
            if not own:
                return Rollout([], [], [], [], [])
            return self._own.play(own, version, **options)

        return join_rollouts(self._ranks.gather(play))._replace(env_id=self._own.env_id)
