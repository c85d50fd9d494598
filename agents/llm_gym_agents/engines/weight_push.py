"""Sending weights to an engine in another process.

Weights travel in buckets: large enough that a call per bucket costs nothing, small enough that a
second copy of the model never exists. On a GPU a bucket is one flat buffer whose handle is sent
(CUDA IPC), so nothing is copied through the host. Elsewhere it is a safetensors file in shared
memory, or a numpy array in Ray's object store.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.multiprocessing.reductions import reduce_tensor

Named = list[tuple[str, Tensor]]
BUCKET_BYTES = 1 << 29
_SHARED_MEMORY = Path("/dev/shm")


def buckets(
    named_tensors: Iterable[tuple[str, Tensor]], size: int = BUCKET_BYTES
) -> Iterator[Named]:
    """Split weights into runs of at most ``size`` bytes; a larger tensor is one by itself.

    >>> one = torch.zeros(3)  # 12 bytes
    >>> [[name for name, _ in run] for run in buckets([(n, one) for n in "abc"], size=24)]
    [['a', 'b'], ['c']]
    """
    run: Named = []
    used = 0
    for name, tensor in named_tensors:
        if run and used + tensor.nbytes > size:
            yield run
            run, used = [], 0
        run.append((name, tensor))
        used += tensor.nbytes
    if run:
        yield run


ALIGN = 256
"""Bytes between the beginnings of two weights are a multiple of this."""


class Spot(NamedTuple):
    """Where a weight is in a buffer, in bytes."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


class Flat(NamedTuple):
    """Weights in a buffer, valid until it is filled again."""

    buffer: Tensor
    spots: list[Spot]

    def named(self) -> list[tuple[str, Tensor]]:
        """Return the weights, which are the buffer's own memory."""
        return [
            (each.name, self.buffer[each.begin : each.end].view(each.dtype).view(each.shape))
            for each in self.spots
        ]


def flat_buckets(named_tensors: Iterable[tuple[str, Tensor]], size: int) -> Iterator[Flat]:
    """Fill a buffer of ``size`` bytes with weights, again and again.

    Weights are copied one by one, so at most one exists beside the buffer. A weight that is larger
    than the buffer is a bucket by itself.

    >>> one = torch.zeros(64)  # 256 bytes
    >>> [[each.name for each in flat.spots] for flat in flat_buckets(zip("abc", [one] * 3), 512)]
    [['a', 'b'], ['c']]
    """
    buffer: Tensor | None = None
    spots: list[Spot] = []
    used = 0
    for name, tensor in named_tensors:
        room = -(-tensor.nbytes // ALIGN) * ALIGN
        if spots and buffer is not None and used + room > len(buffer):
            yield Flat(buffer[:used], spots)
            spots, used = [], 0
        if buffer is None or room > len(buffer):
            buffer = torch.empty(max(room, size), dtype=torch.uint8, device=tensor.device)
        end = used + tensor.nbytes
        buffer[used:end] = tensor.contiguous().view(-1).view(torch.uint8)
        spots.append(Spot(name, tensor.dtype, tuple(tensor.shape), used, end))
        used += room
    if spots and buffer is not None:
        yield Flat(buffer[:used], spots)


# --- to another process -----------------------------------------------------------------


def shared_memory() -> Path | None:
    """Return a folder that is memory, or None where there is none and the disk must do."""
    return _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None


def send(bucket: Named, call: Callable[[str | bytes], list[str]]) -> list[str]:
    """Call ``call`` with something that another process can read ``bucket`` from."""
    if bucket[0][1].is_cuda:
        return _send_handle(bucket, call)
    return _send_file(bucket, call)


def _send_file(bucket: Named, call: Callable[[str], list[str]]) -> list[str]:
    with tempfile.TemporaryDirectory(dir=shared_memory(), prefix="llm-gym-") as place:
        path = f"{place}/bucket.safetensors"
        save_file({name: tensor.cpu().contiguous() for name, tensor in bucket}, path)
        return call(path)


def _send_handle(bucket: Named, call: Callable[[bytes], list[str]]) -> list[str]:
    flat, handle = flat_handle(bucket)
    written = call(handle)
    del flat  # which lives until the other side has read it
    return written


def flat_handle(bucket: Named) -> tuple[Tensor, bytes]:
    """Return a copy of ``bucket`` on its GPU, and a handle that other processes read it by."""
    [flat] = flat_buckets(bucket, sum(tensor.nbytes + ALIGN for _, tensor in bucket))
    return flat.buffer, handle_of(flat)


def handle_of(flat: Flat) -> bytes:
    """Return a handle by which other processes read a GPU buffer, as long as it is kept."""
    torch.cuda.synchronize()
    rebuild, arguments = reduce_tensor(flat.buffer)
    return pickle.dumps((rebuild, arguments, flat.spots))


def in_bucket(bucket: Named | bytes) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of a bucket, by name."""
    if not isinstance(bucket, bytes):
        yield from bucket
        return
    rebuild, arguments, spots = pickle.loads(bucket)
    yield from Flat(rebuild(*arguments), spots).named()


# --- through an object store --------------------------------------------------------------


class StoredBucket(NamedTuple):
    """A bucket in the machine's memory, which pickles without a copy."""

    data: np.ndarray
    spots: list[Spot]

    @classmethod
    def of(cls, flat: Flat) -> StoredBucket:
        """Return the bytes of ``flat``, which on a CPU are its own memory."""
        return cls(flat.buffer.cpu().numpy(), flat.spots)

    def named(self) -> Named:
        """Return the weights, which are the bucket's own memory."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # only read
            return Flat(torch.from_numpy(self.data), self.spots).named()
