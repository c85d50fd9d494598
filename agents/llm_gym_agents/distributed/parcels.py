"""Weights on their way: a bucket as something that travels, and back.

Through Ray's object store a bucket goes as numpy views of the weights' own memory, which Ray copies
once and every reader on a machine maps without a copy. Between processes on one GPU only a handle
goes (CUDA IPC), and the host sees nothing.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from llm_gym_agents.engines.weight_push import Named


class Wrapped(NamedTuple):
    """One weight, as bytes that pickle without a copy."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    data: np.ndarray


Parcel = list[Wrapped] | bytes
"""A bucket on its way: wrapped weights, or the handle of a copy on this machine's GPU."""


def wrapped(bucket: Named) -> list[Wrapped]:
    """Return a bucket in wrapping; weights on a CPU are not copied."""
    return [
        Wrapped(name, weight.dtype, tuple(weight.shape), _bytes(weight)) for name, weight in bucket
    ]


def opened(parcel: Parcel) -> Named | bytes:
    """Return what an engine can load; nothing is copied yet."""
    if isinstance(parcel, bytes):
        return parcel
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # only read
        return [
            (name, torch.from_numpy(data).view(dtype).view(shape))
            for name, dtype, shape, data in parcel
        ]


def _bytes(weight: Tensor) -> np.ndarray:
    flat = weight.detach().cpu().contiguous().view(-1)
    return flat.view(torch.uint8).numpy()
