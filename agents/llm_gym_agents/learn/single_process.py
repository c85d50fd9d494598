"""``SingleProcess``: the interface to the processes that train together, for one process.

A run is written once, against this interface. ``trainer.process_group`` implements it for several
processes: every process runs the same trainer on the same numbers, holds the whole batch and reads
a part of its episodes; only the main one writes files and prints.

A cluster sends SIGTERM before it takes a machine away (``SigtermListener``). Between two iterations
and during sampling, a run stops at once, because the weights have not changed since the last
iteration. A running update is finished first.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from llm_gym_agents.run.checkpoints import Checkpoints, save_checkpoint
from llm_gym_agents.run.metrics import MetricsLog

T = TypeVar("T")


class StopRequested(BaseException):
    """Raised where a run may stop at once. Not an ``Exception``: no handler may swallow it."""


class SigtermListener:
    """Listens to SIGTERM within a ``with`` block, if that runs in the main thread."""

    requested = False
    """Whether SIGTERM has come."""
    _at_once = False
    _usual: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._usual = signal.signal(signal.SIGTERM, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._usual is not None:
            signal.signal(signal.SIGTERM, self._usual)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        if self._at_once:
            self._at_once = False
            raise StopRequested

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise ``StopRequested`` inside this block when SIGTERM comes."""
        if self.requested:
            raise StopRequested
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False


class SingleProcess:
    """The only process of an ordinary run."""

    rank = 0
    world = 1
    is_main = True
    """Whether this process writes files and prints."""
    loss_scale = 1.0
    """Factor on each loss: DDP and FSDP average gradients that should be summed."""

    # Files and signals, on which several processes must agree.
    checkpoints: Callable[..., Checkpoints] = Checkpoints
    save_checkpoint: Callable[..., Path] = staticmethod(save_checkpoint)
    log: Callable[..., MetricsLog] = MetricsLog
    stop: Callable[[], SigtermListener] = SigtermListener
    watching: Callable[[], AbstractContextManager[None]] = nullcontext
    """Within this block, the loss of another process raises an error of one sentence."""

    def shard(self, model: nn.Module, compute_dtype: torch.dtype) -> None:
        """Shard the weights of ``model`` over the processes, in place."""

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the module that an update calls; its gradients are those of all processes."""
        return model

    def equalize(self, model: nn.Module) -> None:
        """Copy the main process's weights of ``model`` to every process."""

    def gradient_sync(self, last: bool) -> AbstractContextManager[Any]:
        """Synchronise gradients within this block if it holds the ``last`` backward of a step."""
        return nullcontext()

    def assign(self, costs: Sequence[int]) -> list[int]:
        """Return the indices of the episodes that this process reads.

        >>> SingleProcess().assign([7, 5])
        [0, 1]
        """
        return list(range(len(costs)))

    def all_sum(self, values: Tensor) -> Tensor:
        """Return the sum of ``values`` over the processes."""
        return values

    def all_max(self, number: int) -> int:
        """Return the largest ``number`` of any process."""
        return number

    def broadcast(self, value: Any) -> Any:
        """Return the ``value`` of the main process."""
        return value

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Return the part of ``items`` that this process works on.

        >>> ranks = SingleProcess()
        >>> ranks.rank, ranks.world = 1, 3
        >>> ranks.share("abcdefg")
        'cd'
        """
        first, last = (at * len(items) // self.world for at in (self.rank, self.rank + 1))
        return items[first:last]

    def gather(self, work: Callable[[], T]) -> list[T]:
        """Return the result of ``work`` in each process; a failure in one is raised in all."""
        return [work()]


SINGLE_PROCESS = SingleProcess()
