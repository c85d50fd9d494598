"""Sequences of a batch that begin alike: what they share is read once.

Turns of ``inference.context=observation`` all begin with the rules, and the episodes of a group
with one prompt. Here each such prefix stays in one sequence only. Embeddings, projections and MLPs
then see it once; in attention its keys serve every sequence that begins with it. Log-probs and
gradients are those of the whole sequences, up to rounding.

Shapes: S ids of all sequences, U ids that are read, Q sequences, L the longest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from llm_gym_agents.model.packed_attention import Packing, SharedKeys

WORTH = 0.75
"""Share of the ids above which reading all of them is as good."""


class SharedPrefix(NamedTuple):
    """A batch in which each shared prefix is read once."""

    ids_U: Tensor
    packing: Packing
    place_S: Tensor
    """Index into ``ids_U`` of each id of all sequences."""


def share_prefixes(
    ids_S: Tensor, lengths_Q: Tensor, device: torch.device, worth: float = WORTH
) -> SharedPrefix | None:
    """Return the batch with every prefix read once; None if more than ``worth`` of it is left."""
    lengths, rows = lengths_Q.cpu().numpy(), len(lengths_Q)
    if rows < 2:
        return None
    at_L = np.arange(lengths.max())
    there_QL = at_L < lengths[:, None]
    ids_QL = np.full(there_QL.shape, -1, dtype=np.int64)
    ids_QL[there_QL] = ids_S.cpu().numpy()
    # In this order the sequence before has the longest prefix in common with each.
    keys = [row.tobytes() for row in ids_QL.astype(">u4")]
    order = np.array(sorted(range(rows), key=keys.__getitem__))
    ids_QL, there_QL, lengths = ids_QL[order], there_QL[order], lengths[order]
    same_QL = (ids_QL[1:] == ids_QL[:-1]) & there_QL[1:]
    common_Q = np.r_[0, np.logical_and.accumulate(same_QL, axis=1).sum(axis=1)]
    own_Q = lengths - common_Q
    if own_Q.sum() > worth * lengths.sum():
        return None
    # An id belongs to the last sequence, up to this one, that does not share it.
    is_own_QL = at_L >= common_Q[:, None]
    owner_QL = np.maximum.accumulate(np.where(is_own_QL, np.arange(rows)[:, None], 0), axis=0)
    place_QL = (own_Q.cumsum() - own_Q - common_Q)[owner_QL] + at_L
    read_QL = is_own_QL & there_QL

    def there(numbers: np.ndarray) -> Tensor:
        return torch.from_numpy(numbers).to(device, non_blocking=True)

    shared = SharedKeys(
        index_K=there(place_QL[there_QL]),
        padded_QL=there(np.where(there_QL, place_QL, 0).ravel()),
        starts=there(np.r_[0, lengths.cumsum()].astype(np.int32)),
        longest=len(at_L),
        position_S=there(np.broadcast_to(at_L, read_QL.shape)[read_QL]),
    )
    packing = Packing.of(torch.from_numpy(own_Q), device).sharing(shared)
    back = order.argsort()
    return SharedPrefix(there(ids_QL[read_QL]), packing, there(place_QL[back][there_QL[back]]))
