"""``Ranks``: processes that learn together, as ``torchrun`` starts them, one for each GPU.

Every process holds the whole batch on its CPU and reads a part of the episodes. What they found is
added up, so that advantages, counts, guards and stops are the same everywhere without a word about
them. Weights are the same in each process (``ddp``) or spread over them (``fsdp``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from llm_gym.errors import ConfigError
from llm_gym_agents.distributed.sharding import shard as shard_module
from llm_gym_agents.learn.single_process import SingleProcess

Mode = Literal["ddp", "fsdp"]


class Ranks(SingleProcess):
    """The processes of a group, seen from one of them.

    Args:
        mode: ``ddp`` keeps all weights in every process and adds gradients up; ``fsdp`` spreads
            weights, gradients and optimizer state over the processes.
        device: Where this process computes.
    """

    def __init__(self, mode: Mode, device: torch.device) -> None:
        self.mode, self.device = mode, device
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.loss_scale = float(self.world)  # both ways average, and an update adds up
        self._mesh = init_device_mesh(device.type, (self.world,))
        self._replicas: list[DistributedDataParallel] = []

    def shard(self, model: nn.Module, compute_dtype: torch.dtype) -> None:
        """Spread the weights of ``model`` over the processes, in place, where that is the mode."""
        if self.mode == "fsdp":
            shard_module(model, self._mesh, compute_dtype)

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return what an update calls, whose gradients are those of all processes."""
        if self.mode == "fsdp":
            return model
        replica = DistributedDataParallel(model)
        self._replicas.append(replica)
        return replica

    def gradient_sync(self, last: bool) -> AbstractContextManager[Any]:
        """Within this block replicas bring gradients together if ``last``; shards always do."""
        if last or not self._replicas:
            return nullcontext()
        return self._replicas[-1].no_sync()

    def assign(self, costs: Sequence[int]) -> list[int]:
        """Return which of some episodes this process reads."""
        return dealt(costs, self.world)[self.rank]

    def all_sum(self, values: Tensor) -> Tensor:
        """Return the sum of ``values`` over the processes, the same bits in each."""
        summed = values.clone()
        dist.all_reduce(summed)
        return summed

    def all_max(self, number: int) -> int:
        """Return the largest ``number`` of any process."""
        found = torch.tensor(number)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def broadcast(self, value: Any) -> Any:
        """Return the ``value`` that the leading process has; anything that can be pickled."""
        held = [value]
        dist.broadcast_object_list(held, src=0)
        return held[0]

    def everyone(self, value: Any) -> list[Any]:
        """Return the ``value`` of every process, in their order."""
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value)
        return found

    def wait(self) -> None:
        """Return when every process is here."""
        dist.barrier()


def dealt(costs: Sequence[int], hands: int) -> list[list[int]]:
    """Deal items into hands of about the same cost: the dearest first, each to the lightest hand.

    Items keep their order in a hand, and who is dealt what depends on the costs alone.

    >>> dealt([5, 1, 1, 3], 2)
    [[0], [1, 2, 3]]
    """
    found: list[list[int]] = [[] for _ in range(hands)]
    loads = [0] * hands
    for at in sorted(range(len(costs)), key=lambda at: (-costs[at], at)):
        lightest = loads.index(min(loads))
        found[lightest].append(at)
        loads[lightest] += costs[at]
    return [sorted(hand) for hand in found]


def join(mode: Mode, *, device: str = "auto", timeout: float = 1800.0) -> Ranks:
    """Join the group that ``torchrun`` describes in the environment; all processes have to.

    Args:
        mode: See ``Ranks``.
        device: ``auto`` takes the GPU of this process's local rank, if there are GPUs.
        timeout: Seconds after which a process that others wait for is given up.
    """
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR") if name not in os.environ]
    if missing:
        raise ConfigError(
            f"parallel.mode={mode!r} needs one process for each GPU, got {' and '.join(missing)} "
            "unset; start it with: torchrun --nproc-per-node 2 -m llm_gym.cli train ..."
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
        # Batches are dealt on the CPU, gradients on the GPU.
        backend = "cpu:gloo,cuda:nccl" if where.type == "cuda" else "gloo"
        dist.init_process_group(
            backend, timeout=timedelta(seconds=timeout), **_fresh_store(timeout)
        )
    return Ranks(mode, where)


def _fresh_store(timeout: float) -> dict[str, Any]:
    """Return where processes that were begun again meet: not where the lost ones had met.

    ``torchrun --standalone`` keeps one store over its restarts (torch 2.13), in which the addresses
    of dead processes are still written.
    """
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if not attempt:
        return {}
    store, rank, world = next(rendezvous("env://", timeout=timedelta(seconds=timeout)))
    apart = PrefixStore(f"attempt-{attempt}", store)
    return {"store": apart, "rank": rank, "world_size": world}
