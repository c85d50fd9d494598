"""Sending weights to an engine in another process.

Weights travel in buckets: large enough that a call per bucket costs nothing, small enough that a
second copy of the model never exists. A bucket is one flat buffer. On a GPU only its handle is sent
(CUDA IPC), so nothing is copied through the host. Elsewhere its bytes are.

Checksums (``weight_sums``) prove that weights arrived. A sum has two numbers modulo 2**64.
``content`` adds up a hash of every element's bits and does not depend on their order, so the parts
of a fused layer add up to the whole, and rows of zeros that an engine has put at the end add
nothing. ``order`` weighs each hash with its place, and notices two parts that were swapped.

Shapes: N elements of a weight.
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
PIECE = 1 << 24
"""Elements hashed at a time: a hash takes eight bytes for each."""
TOGETHER = {"cuda": PIECE}
"""Elements of small weights that a device sums together; one by one they take longer than a push.

A CPU is faster with each by itself."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_FIRST, _SECOND = 0x9E3779B97F4A7C15 - (1 << 64), 0x2545F4914F6CDD1D


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


class WeightSum(NamedTuple):
    """What is known of the bits of a weight."""

    content: int
    order: int
    size: int

    def followed_by(self, other: WeightSum) -> WeightSum:
        """Return the sum of both weights, one after the other.

        >>> one, two = torch.tensor([1.0, 2.0]), torch.tensor([3.0])
        >>> whole = weight_sums([("whole", torch.cat([one, two]))])["whole"]
        >>> parts = weight_sums([("one", one), ("two", two)])
        >>> parts["one"].followed_by(parts["two"]) == whole
        True
        """
        return WeightSum(
            _wrapped(self.content + other.content),
            _wrapped(self.order + other.order + self.size * other.content),
            self.size + other.size,
        )


class PendingSums:
    """Sums of weights that are still on their device: read all at once, by ``read``."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._sums: list[Tensor] = []
        self._waiting: list[Tensor] = []

    def add(self, name: str, tensor: Tensor) -> None:
        """Add a weight, which must not change until ``flush``."""
        bits_N = tensor.detach().contiguous().view(-1).view(_BITS[tensor.element_size()])
        most = TOGETHER.get(tensor.device.type, 0)
        if self._waiting:
            first, count = self._waiting[0], sum(map(len, self._waiting))
            is_like = (first.dtype, first.device) == (bits_N.dtype, bits_N.device)
            if not is_like or count + len(bits_N) > most:
                self.flush()
        self._names.append(name)
        self._sizes.append(len(bits_N))
        self._waiting.append(bits_N)
        if not most:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        self._sums.append(_sum(waiting[0])[None] if len(waiting) == 1 else _sum_each(waiting))

    def read(self) -> dict[str, WeightSum]:
        if not self._names:
            return {}
        self.flush()
        home = self._sums[0].device
        pairs = torch.cat([each.to(home) for each in self._sums]).tolist()
        return {
            name: WeightSum(content, order, size)
            for name, (content, order), size in zip(self._names, pairs, self._sizes, strict=True)
        }


def weight_sums(named_tensors: Iterable[tuple[str, Tensor]]) -> dict[str, WeightSum]:
    """Return the sum of each weight."""
    sums = PendingSums()
    for name, tensor in named_tensors:
        sums.add(name, tensor)
    return sums.read()


@torch.no_grad()
def _sum(bits_N: Tensor) -> Tensor:
    """Return content and order as an int64 tensor of two, on the device of ``bits_N``."""
    found = torch.zeros(2, dtype=torch.int64, device=bits_N.device)
    for first in range(0, bits_N.numel(), PIECE):
        hash_N = _hash(bits_N[first : first + PIECE])
        place_N = torch.arange(first + 1, first + 1 + len(hash_N), device=bits_N.device)
        found[0] += hash_N.sum()
        found[1] += place_N.mul_(hash_N).sum()
    return found


@torch.no_grad()
def _sum_each(weights: list[Tensor]) -> Tensor:
    """Return what ``_sum`` does for each of W weights, as W x 2, by a few passes over all."""
    hash_N = torch.nn.functional.pad(_hash(torch.cat(weights)), (1, 0))  # 0 before the first
    place_N = torch.arange(len(hash_N), device=hash_N.device)
    bounds_W = torch.tensor([0, *map(len, weights)], device=hash_N.device).cumsum(0)
    until_W = torch.stack([hash_N.cumsum(0)[bounds_W], place_N.mul_(hash_N).cumsum_(0)[bounds_W]])
    content_W, order_W = until_W.diff()
    return torch.stack([content_W, order_W - bounds_W[:-1] * content_W], dim=1)


def _hash(bits_N: Tensor) -> Tensor:
    # Multiplied twice with a shift between: a sum of bits alone could not tell +1 and -1 in two
    # places from no change. Zero stays zero.
    hash_N = bits_N.to(torch.int64, copy=True).mul_(_FIRST)
    return hash_N.bitwise_xor_(hash_N >> 29).mul_(_SECOND)


def _wrapped(number: int) -> int:
    """Return ``number`` as int64 arithmetic has it.

    >>> _wrapped((1 << 63) + 5) == 5 - (1 << 63)
    True
    """
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
