"""``Packer`` and ``PPOBatch``: a batch of episodes in micro-batches, without padding.

``draw_turns`` draws some turns of each long episode; only these are trained on.

Shapes: S ids of all sequences, Q sequences, T sampled tokens, K turns, E episodes of the batch, M
of them in a pack.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from tensordict import TensorClass, TensorDict
from torch import Tensor

from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import check_range
from llm_gym_agents.algo.tensor_ops import segment_ids, segment_starts, segment_sum, spread
from llm_gym_agents.model.shared_prefix import Prefixes
from llm_gym_agents.rollouts.rollout_data import NO_POSITION, RolloutData


class Pack(NamedTuple):
    """Some episodes of a batch; positions count from the pack's first id."""

    ids_S: Tensor
    """On the CPU, like the lengths, because the model compares prefixes there."""
    sequence_lengths_Q: Tensor
    position_T: Tensor
    token_T: Tensor
    bootstrap_M: Tensor
    lengths_M: Tensor
    """Sampled tokens of each episode in this pack; on the CPU."""
    index_T: Tensor
    """Indices of these tokens in the batch."""
    episodes_M: Tensor
    """Indices of these episodes in the batch."""

    def to(self, device: torch.device) -> Pack:
        """Return the pack with the model's inputs on ``device``."""
        position_T = self.position_T.to(device, non_blocking=True)
        return self._replace(
            position_T=position_T, token_T=self.token_T.to(device, non_blocking=True)
        )


class _Piece(NamedTuple):
    """An episode, or some sequences of one that exceeds the budget."""

    episode: int
    first: int
    """Sequence of the whole batch."""
    sequences: int

    @property
    def indices(self) -> np.ndarray:
        return np.arange(self.first, self.first + self.sequences)


Cost = Callable[[int, int], float]


class Packer:
    """Packs episodes of a batch."""

    def __init__(self, data: RolloutData) -> None:
        _check(data)
        self.data = data
        self.ids_E = segment_sum(data.sequence_lengths_Q, data.sequences_E)
        """Ids that the model reads for each episode."""
        ends_Q = data.sequence_lengths_Q.cumsum(0)
        home_T = torch.searchsorted(ends_Q, data.position_T, right=True)
        tokens_Q = torch.bincount(home_T, minlength=len(ends_Q))
        self._ids_before, self._tokens_before = (
            F.pad(each.cumsum(0), (1, 0)) for each in (data.sequence_lengths_Q, tokens_Q)
        )
        self._first_sequence_E = segment_starts(data.sequences_E)
        self._prefixes = Prefixes(data.ids_S, data.sequence_lengths_Q)

    def within(self, episodes: Sequence[int], budget: int, *, whole: bool = False) -> list[Pack]:
        """Return packs of at most ``budget`` ids, of about the same size.

        A longer episode is split between its sequences. A longer sequence (with ``whole``: a longer
        episode) is a pack of its own, so nothing is dropped.

        If sharing prefixes saves time, a shared prefix counts once, and sequences with a common
        prefix go together.
        """
        check_range("a token budget", budget, 1)
        first_E, count_E = self._first_sequence_E, self.data.sequences_E
        everything = [_Piece(at, int(first_E[at]), int(count_E[at])) for at in episodes]
        shares = bool(everything) and self._prefixes.pay(
            np.concatenate([each.indices for each in everything])
        )
        pieces = [part for each in everything for part in self._parts(each, budget, whole, shares)]
        if shares:
            pieces.sort(key=lambda piece: int(self._prefixes.rank[piece.first]))
        cost = self._costs(pieces, shares)
        packs = _dealt(len(pieces), cost, budget)
        # As many packs, but of equal size: the smallest budget that gives no more of them.
        low, high = 1, budget
        if pieces:
            low = max(math.ceil(cost(at, at + 1)) for at in range(len(pieces)))
        while low < high:
            middle = (low + high) // 2
            if len(_dealt(len(pieces), cost, middle)) > len(packs):
                low = middle + 1
            else:
                high = middle
        return [self._take(pieces[a:b]) for a, b in _dealt(len(pieces), cost, high)]

    def _costs(self, pieces: Sequence[_Piece], shares: bool) -> Cost:
        if not pieces:
            return lambda first, last: 0
        if not shares:
            ends = torch.tensor([[piece.first, piece.first + piece.sequences] for piece in pieces])
            before = F.pad(self._ids_before[ends].diff().cumsum(0).squeeze(1), (1, 0)).tolist()
            return lambda first, last: before[last] - before[first]
        sequences = np.concatenate([piece.indices for piece in pieces])
        begin = np.cumsum([0, *(piece.sequences for piece in pieces)])
        prefixes = self._prefixes
        return lambda first, last: prefixes.cost(sequences[begin[first] : begin[last]])

    def _parts(self, piece: _Piece, budget: int, whole: bool, shares: bool) -> list[_Piece]:
        if whole or self._costs([piece], shares)(0, 1) <= budget:
            return [piece]
        alone = [_Piece(piece.episode, at, 1) for at in piece.indices.tolist()]
        dealt = _dealt(len(alone), self._costs(alone, shares), budget)
        before, (last, end) = self._tokens_before, dealt[-1]
        if len(dealt) > 1 and before[piece.first + last] == before[piece.first + end]:
            dealt.pop()  # a prompt to bootstrap from: it has no token to learn
            dealt[-1] = dealt[-1][0], end
        return [_Piece(piece.episode, piece.first + a, b - a) for a, b in dealt]

    def _take(self, pieces: Sequence[_Piece]) -> Pack:
        data = self.data
        episodes_M = torch.tensor([piece.episode for piece in pieces])
        first_M = torch.tensor([piece.first for piece in pieces])
        count_M = torch.tensor([piece.sequences for piece in pieces])
        id_M, token_M = self._ids_before[first_M], self._tokens_before[first_M]
        ids_M = self._ids_before[first_M + count_M] - id_M
        lengths_M = self._tokens_before[first_M + count_M] - token_M
        index_T = runs(token_M, lengths_M)
        moved_M = segment_starts(ids_M) - id_M
        bootstrap_M = data.bootstrap_E[episodes_M]
        inside_M = (bootstrap_M >= id_M) & (bootstrap_M < id_M + ids_M)
        return Pack(
            ids_S=data.ids_S[runs(id_M, ids_M)],
            sequence_lengths_Q=data.sequence_lengths_Q[runs(first_M, count_M)],
            position_T=data.position_T[index_T] + spread(moved_M, lengths_M),
            token_T=data.token_T[index_T],
            bootstrap_M=torch.where(inside_M, bootstrap_M + moved_M, NO_POSITION),
            lengths_M=lengths_M,
            index_T=index_T,
            episodes_M=episodes_M,
        )


def _dealt(count: int, cost: Cost, budget: int) -> list[tuple[int, int]]:
    """Return runs of ``count`` items, first and end of each, that cost at most ``budget`` together.

    >>> _dealt(4, lambda first, last: sum([3, 3, 3, 1][first:last]), 6)
    [(0, 2), (2, 4)]
    """
    runs, first = [], 0
    while first < count:
        more = range(first + 2, count + 1)
        end = first + 1 + bisect_right(more, float(budget), key=lambda last: cost(first, last))
        runs.append((first, end))
        first = end
    return runs


def runs(starts_M: Tensor, lengths_M: Tensor) -> Tensor:
    """Return the indices of runs that begin at ``starts_M``, one run after another.

    >>> runs(torch.tensor([5, 0]), torch.tensor([2, 3]))
    tensor([5, 6, 0, 1, 2])
    """
    offset_T = spread(starts_M - segment_starts(lengths_M), lengths_M)
    return offset_T + torch.arange(offset_T.numel(), device=offset_T.device)


class TurnDraw(NamedTuple):
    """A random sample of the turns of every episode."""

    data: RolloutData
    """The drawn turns; a sequence ends after the last drawn turn, and one without any is left
    out."""
    index_T: Tensor
    """Indices of the drawn tokens in the whole batch."""
    weight_T: Tensor
    """For each token: turns of its episode divided by its drawn turns."""
    lengths_E: Tensor
    """Sampled tokens of each whole episode."""


def draw_turns(data: RolloutData, most: int, random_K: Tensor) -> TurnDraw | None:
    """Return the ``most`` turns of each episode with the lowest ``random_K``; None if that is all.

    With uniform ``random_K``, every turn of an episode is equally likely. The weighted sum over the
    drawn tokens is then an unbiased estimate of the sum over all tokens.
    """
    turns_E = segment_sum(data.turn_ends_T.long(), data.lengths_E)
    if int(turns_E.max()) <= most:
        return None
    order_K = (segment_ids(turns_E) + random_K.double()).argsort()
    drawn_K = torch.empty_like(order_K, dtype=torch.bool)
    drawn_K[order_K] = torch.arange(len(order_K)) - spread(segment_starts(turns_E), turns_E) < most
    index_T = drawn_K[data.turn_ends_T.cumsum(0) - data.turn_ends_T.long()].nonzero().squeeze(1)
    position_T = data.position_T[index_T]
    home_T = torch.searchsorted(data.sequence_lengths_Q.cumsum(0), position_T, right=True)
    start_Q = segment_starts(data.sequence_lengths_Q)
    ends_Q = start_Q.scatter_reduce(0, home_T, position_T + 2, "amax")
    read_Q = ends_Q - start_Q
    some = data.clone(recurse=False)
    some.ids_S = data.ids_S[runs(start_Q, read_Q)]
    some.sequence_lengths_Q = read_Q[read_Q > 0]
    some.sequences_E = segment_sum((read_Q > 0).long(), data.sequences_E)
    some.position_T = position_T + (segment_starts(read_Q) - start_Q)[home_T]
    for name in ("token_T", "sampler_log_prob_T", "version_T", "turn_ends_T", "reward_T"):
        setattr(some, name, getattr(data, name)[index_T])
    episode_T = segment_ids(data.lengths_E)[index_T]
    some.lengths_E = torch.bincount(episode_T, minlength=len(turns_E))
    some.terminated_E = torch.ones_like(data.terminated_E)  # values are scored before the draw
    some.bootstrap_E = torch.full_like(data.bootstrap_E, NO_POSITION)
    weight_T = (turns_E / turns_E.clamp(max=most))[episode_T]
    return TurnDraw(some, index_T, weight_T, data.lengths_E)


def _check(data: RolloutData) -> None:
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


class PPOBatch(TensorClass):
    """Episodes of a batch that fit the token budget; see ``TokenObjective`` for the fields."""

    ids: Tensor
    """What the model reads, ``[S]``."""
    sequence_lengths: Tensor
    position: Tensor
    """Index into ``ids`` of the position that predicts each sampled token, ``[T]``."""
    token: Tensor
    lengths: Tensor
    loss_weight: Tensor
    advantage: Tensor
    old_log_prob: Tensor | None = None
    sampler_log_prob: Tensor | None = None
    version: Tensor | None = None
    value: Tensor | None = None
    value_target: Tensor | None = None
    ref_log_prob: Tensor | None = None
    importance_weight: Tensor | None = None


def micro_batch(pack: Pack, batch: TensorDict, weights_T: Tensor) -> PPOBatch:
    """Return the micro-batch of a pack; ``batch`` holds the fields per token."""
    device = pack.token_T.device
    own = batch[pack.index_T]
    return PPOBatch(
        **{name: own[name].to(device, non_blocking=True) for name in own.keys()},  # noqa: SIM118
        ids=pack.ids_S,
        sequence_lengths=pack.sequence_lengths_Q,
        position=pack.position_T,
        token=pack.token_T,
        lengths=pack.lengths_M,
        loss_weight=weights_T[pack.index_T].to(device, non_blocking=True),
        batch_size=[],
    )
