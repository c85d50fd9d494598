"""Sending weights to an engine in another process.

Weights travel in buckets: large enough that a call per bucket costs nothing, small enough that a
second copy of the model never exists. A bucket is one flat buffer. On a GPU only its handle is sent
(CUDA IPC), so nothing is copied through the host. Elsewhere its bytes are.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.reductions import reduce_tensor

BUCKET_BYTES = 1 << 28
ALIGN = 256
"""Bytes between the beginnings of two weights are a multiple of this."""


class Spot(NamedTuple):
    """Where a weight is in a buffer, in bytes."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


class Bucket(NamedTuple):
    """Weights in a buffer, valid until it is filled again."""

    buffer: Tensor
    spots: list[Spot]

    def named(self) -> list[tuple[str, Tensor]]:
        """Return the weights, which are the buffer's own memory."""
        return [
            (each.name, self.buffer[each.begin : each.end].view(each.dtype).view(each.shape))
            for each in self.spots
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a numpy array: Ray's object store hands it on without a copy."""
        return _from_array, (self.buffer.cpu().numpy(), self.spots)


def _from_array(data: np.ndarray, spots: list[Spot]) -> Bucket:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # only read
        return Bucket(torch.from_numpy(data), spots)


def buckets(
    named_tensors: Iterable[tuple[str, Tensor]], size: int = BUCKET_BYTES
) -> Iterator[Bucket]:
    """Fill a buffer of ``size`` bytes with weights, again and again.

    Weights are copied one by one, so at most one exists beside the buffer. A weight that is larger
    than the buffer is a bucket by itself.

    >>> one = torch.zeros(64)  # 256 bytes
    >>> [[spot.name for spot in bucket.spots] for bucket in buckets(zip("abc", [one] * 3), 512)]
    [['a', 'b'], ['c']]
    """
    buffer: Tensor | None = None
    spots: list[Spot] = []
    used = 0
    for name, tensor in named_tensors:
        room = -(-tensor.nbytes // ALIGN) * ALIGN
        if spots and buffer is not None and used + room > len(buffer):
            yield Bucket(buffer[:used], spots)
            spots, used = [], 0
        if buffer is None or room > len(buffer):
            buffer = torch.empty(max(room, size), dtype=torch.uint8, device=tensor.device)
        end = used + tensor.nbytes
        buffer[used:end] = tensor.contiguous().view(-1).view(torch.uint8)
        spots.append(Spot(name, tensor.dtype, tuple(tensor.shape), used, end))
        used += room
    if spots and buffer is not None:
        yield Bucket(buffer[:used], spots)


def to_bytes(bucket: Bucket) -> bytes:
    """Return a bucket as bytes for another process; on a GPU a handle, good until refilled."""
    if not bucket.buffer.is_cuda:
        return pickle.dumps(bucket)
    torch.cuda.synchronize()
    return pickle.dumps((*reduce_tensor(bucket.buffer), bucket.spots))


def weights_in(bucket: Bucket | bytes) -> list[tuple[str, Tensor]]:
    """Return the weights of a bucket, or of what ``to_bytes`` made of one."""
    found = pickle.loads(bucket) if isinstance(bucket, bytes) else bucket
    if not isinstance(found, Bucket):
        rebuild, arguments, spots = found
        found = Bucket(rebuild(*arguments), spots)
    return found.named()
