"""``Size``: what packed sequences are filled up to, so that one recorded pass fits many batches.

Shapes: Q sequences.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_SHORTEST = 128


class Size(NamedTuple):
    """Of a recording: what is filled up to it looks alike."""

    ids: int
    rows: int
    longest: int

    @classmethod
    def of(cls, lengths_Q: Tensor) -> Size:
        """Return the size that sequences of these lengths are filled up to.

        >>> Size.of(torch.tensor([100, 300, 210]))
        Size(ids=640, rows=4, longest=512)
        """
        ids, longest = int(lengths_Q.sum()), int(lengths_Q.max())
        longest = max(_SHORTEST, 1 << (longest - 1).bit_length())
        step = max(_SHORTEST, 1 << max(0, (ids - 1).bit_length() - 3))  # four sizes to a doubling
        filled = -(-ids // step) * step
        rows = len(lengths_Q) + -(-(filled - ids) // longest)
        return cls(filled, 1 << (rows - 1).bit_length(), longest)

    def fill(self, lengths_Q: Tensor) -> Tensor:
        """Return the lengths of all sequences of a recording: those given, filling, empty ones.

        The filling is read like any sequence: what an attention kernel leaves out would be memory
        that nobody wrote, and zeros times that need not be zero.

        >>> Size(640, 8, 256).fill(torch.tensor([100, 250]))
        tensor([100, 250, 256,  34,   0,   0,   0,   0])
        """
        left = self.ids - int(lengths_Q.sum())
        filling = [self.longest] * (left // self.longest) + [left % self.longest]
        empty = self.rows - len(lengths_Q) - len(filling)
        more = filling + [0] * empty if empty >= 0 else filling[:empty]
        return torch.cat([lengths_Q, lengths_Q.new_tensor(more)])
