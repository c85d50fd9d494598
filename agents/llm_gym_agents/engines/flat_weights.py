"""Weights behind one another in one buffer, which travels at once and is used again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

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
    """Weights in a buffer; good until the next are put there."""

    buffer: Tensor
    spots: list[Spot]

    def named(self) -> list[tuple[str, Tensor]]:
        """Return the weights, which are the buffer's own memory."""
        return [
            (each.name, self.buffer[each.begin : each.end].view(each.dtype).view(each.shape))
            for each in self.spots
        ]


def flat_buckets(named_tensors: Iterable[tuple[str, Tensor]], size: int) -> Iterator[Flat]:
    """Put weights into a buffer of ``size`` bytes, as many as there is room for, again and again.

    Each is copied as it comes, so of what is made for it alone there is never more than one weight
    beside the buffer. A weight that is larger is one by itself.

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
