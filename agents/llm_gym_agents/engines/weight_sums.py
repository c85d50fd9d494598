"""Checksums of weights: exact, cheap on a GPU, and the same on both sides of a push.

A sum has two numbers modulo 2**64. ``content`` adds up a hash of every element's bits and does not
depend on their order, so the parts of a fused layer add up to the whole, and rows of zeros that an
engine has put at the end add nothing. ``order`` weighs each hash with its place, and notices two
parts that were swapped. One bit that differs anywhere changes both.

A model has hundreds of weights, and a GPU that is handed them one by one waits for the CPU. So
they are put behind one another and hashed together; running totals, read where each weight
ends, are the sums of all of them.

Shapes: N elements of a weight, or of several; W weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

PIECE = 1 << 24
"""Elements hashed at a time: a hash takes eight bytes for each."""
TOGETHER = {"cuda": PIECE, "cpu": 1 << 12}
"""Most elements of a weight that is hashed with others. A CPU has nothing to wait for, and running
totals cost it more than a sum."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_FIRST, _SECOND = 0x9E3779B97F4A7C15 - (1 << 64), 0x2545F4914F6CDD1D


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
        self._pairs_W2: list[Tensor] = []
        self._row: _Row | None = None

    def add(self, name: str, tensor: Tensor, *, stays: bool = False) -> None:
        """Take the sum of a weight; the tensor may change afterwards, unless it ``stays``."""
        size = tensor.numel()
        self._names.append(name)
        self._sizes.append(size)
        bits_N = tensor.detach().contiguous().view(-1).view(_BITS[tensor.element_size()])
        if self._row is not None and not self._row.takes(bits_N, size):
            self._close()
        if size <= min(TOGETHER.get(tensor.device.type, 0), PIECE):
            self._row = self._row or _Row()
            self._row.add(bits_N if stays else bits_N.clone(), size)
        else:
            self._close()
            self._pairs_W2.append(_sum(bits_N).unsqueeze(0))

    def read(self) -> dict[str, WeightSum]:
        """Return the sums so far."""
        self._close()
        if not self._names:
            return {}
        home = self._pairs_W2[0].device
        pairs = torch.cat([each.to(home) for each in self._pairs_W2]).tolist()
        return {
            name: WeightSum(content, order, size)
            for name, (content, order), size in zip(self._names, pairs, self._sizes, strict=True)
        }

    def _close(self) -> None:
        """Sum up what waits to be summed together."""
        if self._row is not None:
            self._pairs_W2.append(self._row.sums())
            self._row = None


class _Row:
    """Weights that are hashed together, all with elements alike."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []
        self._ends: list[int] = [0]

    def takes(self, bits_N: Tensor, size: int) -> bool:
        """Whether there is room for such a weight."""
        first = self._parts[0]
        alike = bits_N.dtype == first.dtype and bits_N.device == first.device
        return alike and self._ends[-1] + size <= PIECE

    def add(self, bits_N: Tensor, size: int) -> None:
        """Take a weight, which stays as it is."""
        self._ends.append(self._ends[-1] + size)
        self._parts.append(bits_N)

    def sums(self) -> Tensor:
        """Return content and order of each, W by 2, on the device."""
        hash_N = _hash(torch.cat(self._parts))
        marks = torch.tensor(self._ends).to(hash_N.device, non_blocking=True)
        content_W = _between(hash_N, marks)
        hash_N.mul_(torch.arange(1, 1 + len(hash_N), device=hash_N.device))
        # Places were counted from the begin of the row.
        order_W = _between(hash_N, marks) - marks[:-1] * content_W
        return torch.stack([content_W, order_W], dim=1)


def _between(numbers_N: Tensor, marks: Tensor) -> Tensor:
    """Return the totals of ``numbers_N`` between one mark and the next."""
    totals = torch.cat([numbers_N.new_zeros(1), numbers_N]).cumsum_(0)
    return totals[marks].diff()


def weight_sums(named_tensors: Iterable[tuple[str, Tensor]]) -> dict[str, WeightSum]:
    """Return the sum of each weight."""
    sums = PendingSums()
    for name, tensor in named_tensors:
        sums.add(name, tensor, stays=True)
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


def _hash(bits_N: Tensor) -> Tensor:
    """Return a hash of every element.

    Multiplied twice with a shift between: a sum of bits alone could not tell +1 and -1 in two
    places from no change. Zero stays zero.
    """
    hash_N = bits_N.to(torch.int64, copy=True).mul_(_FIRST)
    return hash_N.bitwise_xor_(hash_N >> 29).mul_(_SECOND)


def _wrapped(number: int) -> int:
    """Return ``number`` as int64 arithmetic has it.

    >>> _wrapped((1 << 63) + 5) == 5 - (1 << 63)
    True
    """
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
