"""The token side of a record: what the model read and wrote in an episode, token by token.

Shapes: S ids of the episode's sequences, T sampled tokens of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from llm_gym.episodes import Tokens
from llm_gym_agents.algo.segments import segment_sum
from llm_gym_agents.batch.rollout_data import RolloutData


def episode_tokens(
    data: RolloutData, at: int, sampled: Mapping[str, Tensor] | None = None
) -> Tokens:
    """Return the tokens of episode ``at`` of a batch.

    Args:
        data: The batch.
        at: Place of the episode in it.
        sampled: More columns of ``Tokens`` (``values``, ``advantages``, ``ratios``), a number for
            each sampled token of the batch; a token that was read has NaN there.
    """
    ids_E = segment_sum(data.sequence_lengths_Q, data.sequences_E)
    first_id, first_token = int(ids_E[:at].sum()), int(data.lengths_E[:at].sum())
    own = slice(first_token, first_token + int(data.lengths_E[at]))
    ids_S = data.ids_S[first_id : first_id + int(ids_E[at])]
    place_T = data.position_T[own] + 1 - first_id
    turns_S = _turns(ids_S.numel(), place_T, data.turn_ends_T[own])
    version_K = data.version_T[own][data.turn_ends_T[own]]
    columns = {"log_probs": data.sampler_log_prob_T, **(sampled or {})}
    spread = {name: _spread(ids_S.numel(), place_T, one[own]) for name, one in columns.items()}
    trained_on_S = torch.zeros(ids_S.numel(), dtype=torch.bool, device=ids_S.device)
    trained_on_S[place_T] = True
    return Tokens(
        ids=ids_S.tolist(),
        trained_on=trained_on_S.tolist() if sampled else None,
        weights_versions=version_K[turns_S.clamp(max=version_K.numel() - 1)].tolist(),
        turns=turns_S.tolist(),
        **spread,
    )


def _turns(count: int, place_T: Tensor, turn_ends_T: Tensor) -> Tensor:
    """Return the turn of each id: a prompt belongs to the reply after it."""
    ended_S = torch.zeros(count, dtype=torch.int64, device=place_T.device)
    ended_S[place_T[turn_ends_T]] = 1
    return ended_S.cumsum(0) - ended_S


def _spread(count: int, place_T: Tensor, values_T: Tensor) -> list[float]:
    values_S = torch.full((count,), torch.nan, device=place_T.device)
    values_S[place_T] = values_T.to(values_S)
    found: list[float] = values_S.tolist()
    return found
