"""``SingleProcess``: one process that learns by itself, and what several would have to agree on.

An update asks this little of whatever it runs on, so it is written once: ``distributed.ranks`` has
the same answers for a group of processes, every one of which holds the whole batch and reads a
part of its episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn


class SingleProcess:
    """The one process of an ordinary run."""

    rank = 0
    """Which of the processes this is."""
    world = 1
    """Processes that learn together."""
    loss_scale = 1.0
    """On each loss, where gradients are averaged over processes and have to be added up."""

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def shard(self, model: nn.Module, compute_dtype: torch.dtype) -> None:
        """Spread the weights of ``model`` over the processes, in place."""

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return what an update calls, whose gradients are those of all processes."""
        return model

    def gradient_sync(self, last: bool) -> AbstractContextManager[Any]:
        """Within this block gradients are brought together if ``last``; else they may wait."""
        return nullcontext()

    def assign(self, costs: Sequence[int]) -> list[int]:
        """Return which of some episodes this process reads; each is read by one process.

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
        """Return the ``value`` that the leading process has."""
        return value


SINGLE_PROCESS = SingleProcess()
