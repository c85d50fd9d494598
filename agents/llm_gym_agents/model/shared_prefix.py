"""Compute a prefix that several sequences of a batch share only once.

With ``inference.context=observation`` all turns begin with the rules; the episodes of a group begin
with one prompt. Each such prefix stays in one sequence only. Embeddings, projections and MLPs
process it once; in attention its keys serve every sequence that begins with it. Log-probs and
gradients equal those of the whole sequences, up to rounding.

Shapes: S ids of all sequences, U ids that are read, Q sequences, L the longest, R rows of
attention.
"""

from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from llm_gym_agents.model.packed_attention import Packing, SharedKeys

WORTH = 0.75
"""If more than this share of the ids is left, sharing prefixes does not pay."""
KEY = 1 / 16
"""Upper bound on the memory of an id that is only a key, relative to an id that is read."""


class SharedPrefix(NamedTuple):
    """A batch in which each shared prefix is read once, on the CPU."""

    ids_U: Tensor
    packing: Packing
    place_S: Tensor
    """Index into ``ids_U`` of each id of all sequences."""


class Prefixes:
    """Which prefixes the sequences of a batch have in common."""

    def __init__(self, ids_S: Tensor, lengths_Q: Tensor) -> None:
        self.lengths = lengths_Q.cpu().numpy()
        # Bytes of this type have the order of the numbers.
        self.rows = np.split(ids_S.cpu().numpy().astype(">u4"), self.lengths.cumsum()[:-1])

    @cached_property
    def order(self) -> np.ndarray:
        """The sequences in sorted order, so that each shares most with the one before it."""
        keys = [row.tobytes() for row in self.rows]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__))

    @cached_property
    def rank(self) -> np.ndarray:
        return self.order.argsort()

    @cached_property
    def common(self) -> np.ndarray:
        """Ids that each sequence shares with the one before it in ``order``."""
        found = np.zeros(len(self.order), dtype=np.int64)
        for at, (before, after) in enumerate(pairwise(self.order), 1):
            most = min(self.lengths[before], self.lengths[after])
            differs = self.rows[before][:most] != self.rows[after][:most]
            found[at] = differs.argmax() if differs.any() else most
        return found

    def unshared(self, some: np.ndarray) -> int:
        """Return how many ids of these sequences are left if each prefix is read once."""
        ranks, total = np.sort(self.rank[some]), int(self.lengths[some].sum())
        if len(ranks) < 2:
            return total
        # Two sequences share exactly what all sequences between them in ``order`` share.
        return total - int(np.minimum.reduceat(self.common[: ranks[-1] + 1], ranks[:-1] + 1).sum())

    def pay(self, some: np.ndarray) -> bool:
        """Whether to read each prefix of these sequences once."""
        return self.unshared(some) <= WORTH * float(self.lengths[some].sum())

    def cost(self, some: np.ndarray) -> float:
        """Return the memory of reading these together, in ids; it grows with the set."""
        own, all_ids = self.unshared(some), int(self.lengths[some].sum())
        return max(own + KEY * all_ids, min(all_ids, own / WORTH))


def share_prefixes(
    ids_S: Tensor, lengths_Q: Tensor, *, pads: bool, worth: float = WORTH
) -> SharedPrefix | None:
    """Return the batch with every prefix read once; None if more than ``worth`` of it is left.

    ``pads`` says whether attention pads its rows to the longest. Then a sequence with many more ids
    than others, such as the owner of the common prefix, is cut into several rows.
    """
    rows = len(lengths_Q)
    if rows < 2:
        return None
    found = Prefixes(ids_S, lengths_Q)
    order, common_Q, lengths = found.order, found.common, found.lengths[found.order]
    own_Q = lengths - common_Q
    if own_Q.sum() > worth * lengths.sum():
        return None
    # The owner of an id is the last sequence, up to this one, that does not share it.
    at_L = np.arange(lengths.max())
    is_own_QL = at_L >= common_Q[:, None]
    owner_QL = np.maximum.accumulate(np.where(is_own_QL, np.arange(rows)[:, None], 0), axis=0)
    place_QL = (own_Q.cumsum() - own_Q - common_Q)[owner_QL] + at_L
    ids = [found.rows[at][n:] for at, n in zip(order, common_Q, strict=True)]
    ids_U = torch.from_numpy(np.concatenate(ids).astype(np.int64))
    packing = _attention(place_QL, common_Q, lengths, pads)
    back = order.argsort()
    there_QL = at_L < lengths[back][:, None]
    return SharedPrefix(ids_U, packing, torch.from_numpy(place_QL[back][there_QL]))


def _attention(
    place_QL: np.ndarray, common_Q: np.ndarray, lengths_Q: np.ndarray, pads: bool
) -> Packing:
    """Return which ids are queries, in rows, and which are the keys of each row."""
    own_Q = lengths_Q - common_Q
    width = own_Q.max()
    if pads:
        width = max(int(np.median(own_Q[own_Q > 0])), int(own_Q.mean()) // 2, 1)
    parts_Q = -(-own_Q // width)
    of_R = np.repeat(np.arange(len(own_Q)), parts_Q)
    part_R = np.arange(len(of_R)) - np.repeat(parts_Q.cumsum() - parts_Q, parts_Q)
    first_R = common_Q[of_R] + part_R * width
    end_R = np.minimum(first_R + width, lengths_Q[of_R])
    at_L = np.arange(place_QL.shape[1])
    seen_RL = at_L < end_R[:, None]
    read_RL = seen_RL & (at_L >= first_R[:, None])
    shared = SharedKeys(
        index_K=torch.from_numpy(place_QL[of_R][seen_RL]),
        starts=torch.from_numpy(np.r_[0, end_R.cumsum()].astype(np.int32)),
        longest=len(at_L),
        position_S=torch.from_numpy(np.broadcast_to(at_L, read_RL.shape)[read_RL]),
    )
    return replace(Packing.of(torch.from_numpy(end_R - first_R)), shared=shared)
