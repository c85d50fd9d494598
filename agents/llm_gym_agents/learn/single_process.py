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
from typing import Any, Self

import torch
from torch import Tensor, nn

from llm_gym.episodes import Trajectory
from llm_gym_agents.run.checkpoint_weights import Like
from llm_gym_agents.run.checkpoints import Checkpoints, TrainerState, load_checkpoint
from llm_gym_agents.run.metrics import MetricsLog


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


Settle = Callable[[list[Trajectory]], dict[str, float]]
"""Writes final rewards into episodes; returns metrics."""


class SingleProcess:
    """The only process of an ordinary run."""

    rank = 0
    world = 1
    loss_scale = 1.0
    """Factor on each loss: DDP and FSDP average gradients that should be summed."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

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

    def all_gather(self, value: Any) -> list[Any]:
        """Return the ``value`` of every process, in their order."""
        return [value]

    def barrier(self) -> None:
        """Wait for all processes."""

    # --- files and signals ---------------------------------------------------------------

    def checkpoints(self, folder: Path, **options: Any) -> Checkpoints:
        return Checkpoints(folder, **options)

    def load(self, folder: str | Path, like: Like) -> TrainerState:
        """Read a checkpoint; ``like`` gives the tensor that each one is loaded into."""
        return load_checkpoint(folder)

    def score(self, episodes: list[Trajectory], settle: Settle) -> dict[str, float]:
        """Let ``settle`` set the rewards of ``episodes``; return its metrics."""
        return settle(episodes)

    def log(self, folder: Path, **options: Any) -> MetricsLog:
        folder.mkdir(parents=True, exist_ok=True)
        return MetricsLog(folder, **options)

    def stop(self) -> SigtermListener:
        return SigtermListener()

    def watching(self) -> AbstractContextManager[None]:
        """Within this block, the loss of another process raises an error of one sentence."""
        return nullcontext()


SINGLE_PROCESS = SingleProcess()
