"""``Sequences``: the one packer of token ids, for episodes that were played and for examples.

Shapes: S ids of all sequences, Q sequences, T tokens that are learned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Inputs(NamedTuple):
    """What ``PolicyValueModel`` reads, in its order."""

    ids_S: Tensor
    sequence_lengths_Q: Tensor
    position_T: Tensor
    token_T: Tensor


class Sequences:
    """What a model reads, one sequence after another, and which of its ids are learned.

    >>> packed = Sequences()
    >>> packed.read([1, 2], new_sequence=True)
    >>> packed.learn([3])
    >>> packed.positions, packed.tokens  # the id at place 1 is the last one before the token
    ([1], [3])
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.lengths: list[int] = []
        """Ids of each sequence."""
        self.positions: list[int] = []
        """Index into ``ids`` of the position that predicts each learned token."""
        self.tokens: list[int] = []
        """The learned tokens."""

    def read(self, ids: Sequence[int], *, new_sequence: bool = False) -> None:
        """Append ids to the last sequence, or begin a new one with them."""
        if new_sequence:
            self.lengths.append(0)
        self.lengths[-1] += len(ids)
        self.ids += ids

    def learn(self, ids: Sequence[int]) -> None:
        """Append ids that are learned, each from the position before it."""
        last = len(self.ids) - 1
        self.positions += range(last, last + len(ids))
        self.tokens += ids
        self.read(ids)

    def inputs(self) -> Inputs:
        """Return all of it as tensors."""
        lists = (self.ids, self.lengths, self.positions, self.tokens)
        return Inputs(*map(whole_numbers, lists))


def whole_numbers(numbers: Iterable[int]) -> Tensor:
    """Return a vector of int64, also of no numbers at all."""
    return torch.tensor(list(numbers), dtype=torch.int64)
