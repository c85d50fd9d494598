"""Sums and means over the runs of one flat stream.

A stream holds its episodes (or turns) one after another, so a list of lengths says where each
begins and no padding exists. A run of length 0 is allowed: its sum and mean are 0.

Lengths may be on the CPU while values are on a GPU, which is then not waited for.

Shapes: T tokens, E runs, episodes or turns. ``values_E`` has shape ``[E]``.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def segment_ids(lengths_E: Tensor) -> Tensor:
    """The number of the run each token belongs to.

    >>> segment_ids(torch.tensor([2, 0, 1]))
    tensor([0, 0, 2])
    """
    if lengths_E.device.type != "cpu":
        return torch.repeat_interleave(lengths_E)
    # On a CPU torch starts its threads for it, however little there is to repeat.
    lengths = lengths_E.numpy()
    return torch.from_numpy(np.repeat(np.arange(len(lengths), dtype=lengths.dtype), lengths))


def segment_starts(lengths_E: Tensor) -> Tensor:
    """The position of each run's first token in the stream.

    >>> segment_starts(torch.tensor([2, 0, 1]))
    tensor([0, 2, 2])
    """
    return lengths_E.cumsum(0) - lengths_E


def segment_sum(values_T: Tensor, lengths_E: Tensor) -> Tensor:
    """The sum of each run.

    >>> segment_sum(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([2, 0, 1]))
    tensor([3., 0., 4.])
    """
    zeros_E = values_T.new_zeros(lengths_E.shape)
    return zeros_E.index_add(0, segment_ids(lengths_E).to(values_T.device), values_T)


def segment_mean(values_T: Tensor, lengths_E: Tensor) -> Tensor:
    """The mean of each run; 0 for an empty one.

    >>> segment_mean(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([2, 0, 1]))
    tensor([1.5000, 0.0000, 4.0000])
    """
    return segment_sum(values_T, lengths_E) / lengths_E.clamp(min=1).to(values_T.device)


def spread(values_E: Tensor, lengths_E: Tensor) -> Tensor:
    """Each run's value on every token of the run.

    >>> spread(torch.tensor([5.0, 6.0, 7.0]), torch.tensor([2, 0, 1]))
    tensor([5., 5., 7.])
    """
    return values_E.index_select(0, segment_ids(lengths_E).to(values_E.device))
