"""Checksums of weights: exact, cheap on a GPU, and the same on both sides of a push.

A sum has two numbers modulo 2**64. ``content`` adds up a hash of every element's bits and does not
depend on their order, so the parts of a fused layer add up to the whole, and rows of zeros that an
engine has put at the end add nothing. ``order`` weighs each hash with its place, and notices two
parts that were swapped. One bit that differs anywhere changes both.

Shapes: N elements of a weight.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

PIECE = 1 << 24
"""Elements hashed at a time: a hash takes eight bytes for each."""
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
        self._sums: list[Tensor] = []

    def add(self, name: str, tensor: Tensor) -> None:
        bits_N = tensor.detach().contiguous().view(-1).view(_BITS[tensor.element_size()])
        self._names.append(name)
        self._sizes.append(tensor.numel())
        self._sums.append(_sum(bits_N))

    def read(self) -> dict[str, WeightSum]:
        if not self._names:
            return {}
        home = self._sums[0].device
        pairs = torch.stack([each.to(home) for each in self._sums]).tolist()
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
