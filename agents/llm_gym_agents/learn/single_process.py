"""``SingleProcess``: what an update asks of the processes that train together.

An update is written once, against this interface. ``distributed`` implements it for a process
group, in which every process holds the whole batch and reads a part of its episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn


class SingleProcess:
    """The only process of an ordinary run."""

    rank = 0
    world = 1
    loss_scale = 1.0
    """Factor on each loss. A group averages gradients that should be added up."""

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
        """Give every process the main one's weights of ``model``, after training apart."""

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


SINGLE_PROCESS = SingleProcess()
