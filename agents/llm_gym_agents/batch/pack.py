"""Cutting a batch of episodes into micro-batches of whole episodes, without padding.

Shapes: S ids of all sequences, Q sequences, T sampled tokens, E episodes of the batch, M of them
in a pack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from llm_gym.errors import ConfigError
from llm_gym_agents.algo.segments import segment_starts, segment_sum, spread
from llm_gym_agents.batch.rollout_data import NO_POSITION, RolloutData


class Pack(NamedTuple):
    """Some episodes of a batch, positions counted from the pack's own first id."""

    ids_S: Tensor
    sequence_lengths_Q: Tensor
    position_T: Tensor
    token_T: Tensor
    bootstrap_M: Tensor
    lengths_M: Tensor
    """Sampled tokens of each episode."""
    index_T: Tensor
    """Which tokens of the whole batch these are."""
    episodes_M: Tensor
    """Which episodes of the whole batch these are."""


class Packer:
    """Takes episodes out of a batch."""

    def __init__(self, data: RolloutData) -> None:
        _check(data)
        self.data = data
        self.ids_E = segment_sum(data.sequence_lengths_Q, data.sequences_E)
        """Ids that the model reads for each episode."""
        self._first_id_E = segment_starts(self.ids_E)
        self._first_sequence_E = segment_starts(data.sequences_E)
        self._first_token_E = segment_starts(data.lengths_E)

    def take(self, episodes_M: Tensor) -> Pack:
        """Return the pack of these episodes, in this order."""
        data, ids_M = self.data, self.ids_E[episodes_M]
        lengths_M = data.lengths_E[episodes_M]
        index_T = _runs(self._first_token_E[episodes_M], lengths_M)
        moved_M = segment_starts(ids_M) - self._first_id_E[episodes_M]
        bootstrap_M = data.bootstrap_E[episodes_M]
        return Pack(
            ids_S=data.ids_S[_runs(self._first_id_E[episodes_M], ids_M)],
            sequence_lengths_Q=data.sequence_lengths_Q[
                _runs(self._first_sequence_E[episodes_M], data.sequences_E[episodes_M])
            ],
            position_T=data.position_T[index_T] + spread(moved_M, lengths_M),
            token_T=data.token_T[index_T],
            bootstrap_M=torch.where(bootstrap_M == NO_POSITION, NO_POSITION, bootstrap_M + moved_M),
            lengths_M=lengths_M,
            index_T=index_T,
            episodes_M=episodes_M,
        )

    def within(self, episodes: Sequence[int], budget: int) -> list[Pack]:
        """Return packs of at most ``budget`` ids, or of one episode that has more by itself."""
        if budget < 1:
            raise ConfigError(f"a token budget must be at least 1, got {budget}")
        costs = self.ids_E.tolist()
        packs: list[list[int]] = []
        room = 0
        for episode in episodes:
            if not packs or costs[episode] > room:
                packs.append([])
                room = budget
            packs[-1].append(episode)
            room -= costs[episode]
        device = self.data.ids_S.device
        return [self.take(torch.tensor(pack, device=device)) for pack in packs]


def _runs(starts_M: Tensor, lengths_M: Tensor) -> Tensor:
    """Return the indices of runs that begin at ``starts_M``, one run after another.

    >>> _runs(torch.tensor([5, 0]), torch.tensor([2, 3]))
    tensor([5, 6, 0, 1, 2])
    """
    offset_T = spread(starts_M - segment_starts(lengths_M), lengths_M)
    return offset_T + torch.arange(offset_T.numel(), device=offset_T.device)


def _check(data: RolloutData) -> None:
    """Raise if lengths, positions or rewards do not fit together."""
    tokens, ids = data.token_T.numel(), data.ids_S.numel()
    facts = {
        "lengths_E must add up to the sampled tokens": int(data.lengths_E.sum()) == tokens,
        "sequence_lengths_Q must add up to the ids": int(data.sequence_lengths_Q.sum()) == ids,
        "sequences_E must add up to the sequences": int(data.sequences_E.sum())
        == data.sequence_lengths_Q.numel(),
        "every sampled token must be the id after its position": torch.equal(
            data.ids_S[data.position_T + 1], data.token_T
        ),
        "a reward must sit on the last sampled token of its turn": not bool(
            data.reward_T[~data.turn_ends_T].any()
        ),
        "a truncated episode must have a position to bootstrap from": not bool(
            ((data.bootstrap_E == NO_POSITION) & ~data.terminated_E).any()
        ),
    }
    broken = [fact for fact, holds in facts.items() if not holds]
    if broken:
        raise ConfigError(f"this batch cannot be trained on: {'; '.join(broken)}")
