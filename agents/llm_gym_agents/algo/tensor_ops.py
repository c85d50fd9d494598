"""Helpers of all estimators and losses: their error class, dtypes, segments and statistics."""

import numpy as np
import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError


class StreamError(ConfigError):
    """A batch of tokens breaks a rule that every estimator and loss relies on."""


# --- dtypes ---------------------------------------------------------------------------


def widen(values: Tensor) -> Tensor:
    """``values`` in the widest float of their device: float64, or float32 on Apple's MPS."""
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)


def at_least_float32(values: Tensor) -> Tensor:
    """``values`` unchanged if float32 or float64, else as float32 (bfloat16 loses 1e-2)."""
    return values.to(result_dtype(values))


def result_dtype(*tensors: Tensor | None) -> torch.dtype:
    """The dtype of a result computed from ``tensors``: float64 if one of them is, else float32."""
    wide = any(tensor is not None and tensor.dtype == torch.float64 for tensor in tensors)
    return torch.float64 if wide else torch.float32


# --- segments -------------------------------------------------------------------------


def segment_ids(lengths_E: Tensor) -> Tensor:
    """The number of the run each token belongs to.

    >>> segment_ids(torch.tensor([2, 0, 1]))
    tensor([0, 0, 2])
    """
    if lengths_E.device.type != "cpu":
        return torch.repeat_interleave(lengths_E)
    # On a CPU, torch would start its threads even for a short input.
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


# --- statistics -----------------------------------------------------------------------


def mean(values: Tensor) -> Tensor:
    """Mean of ``values``; 0 when there are none.

    >>> mean(torch.tensor([1.0, 2.0, 4.0]))
    tensor(2.3333)
    """
    return (widen(values).sum() / max(values.numel(), 1)).to(result_dtype(values))


def standardize(values: Tensor) -> Tensor:
    """``values`` scaled to mean 0 and variance 1."""
    wide, count = widen(values), values.numel()
    centred = wide - wide.sum() / max(count, 1)
    variance = centred.square().sum() / max(count - 1, 1)
    # Equal entries give 0, not a division by 0.
    return (centred * (variance + 1e-8).rsqrt()).to(result_dtype(values))
