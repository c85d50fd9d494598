"""Episodes that are left out of the loss: played, scored and counted, but no lesson.

They stay in the batch, so a group still compares with all of its members; only the weights of
their tokens are 0, and the others share the loss among themselves.

Shapes: T sampled tokens, E episodes of the batch, M of an optimizer step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from llm_gym_agents import algo
from llm_gym_agents.algo.losses.kl import k3_of_log_ratio
from llm_gym_agents.algo.losses.ratio import LOG_RATIO_LIMIT
from llm_gym_agents.algo.segments import segment_sum, spread
from llm_gym_agents.batch.rollout_data import RolloutData
from llm_gym_agents.config.training import TrainingConfig


def kept_episodes(
    config: TrainingConfig, data: RolloutData, old_log_prob_T: Tensor | None
) -> Tensor | None:
    """Return which episodes are learned from, per episode; None where all of them are.

    Args:
        config: Says which are left out.
        data: The batch.
        old_log_prob_T: What the trainer's own pass says of each token before the update.
    """
    kept_E = torch.ones(len(data.lengths_E), dtype=torch.bool)
    if config.mask_truncated_replies and data.cut_E is not None:
        kept_E &= ~data.cut_E
    if config.max_sampler_kl is not None and old_log_prob_T is not None:
        gap_E = sequence_mismatch(old_log_prob_T, data.sampler_log_prob_T, data.lengths_E)
        kept_E &= gap_E <= config.max_sampler_kl
    return None if bool(kept_E.all()) else kept_E


def sequence_mismatch(
    old_log_prob_T: Tensor, sampler_log_prob_T: Tensor, lengths_E: Tensor
) -> Tensor:
    """Return how far the sampler was from the trainer in each episode: the mean k3 of its tokens.

    >>> old, sampler = torch.tensor([-1.0, -1.0, -1.0]), torch.tensor([-1.0, -1.0, -3.0])
    >>> sequence_mismatch(old, sampler, torch.tensor([2, 1]))
    tensor([0.0000, 4.3891])
    """
    log_ratio_T = (old_log_prob_T - sampler_log_prob_T).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return segment_sum(k3_of_log_ratio(log_ratio_T), lengths_E) / lengths_E.clamp(min=1)


def step_weights(
    lengths_M: Tensor,
    kept_M: Tensor | None,
    aggregation: algo.Aggregation,
    norm_length: float | None,
) -> Tensor:
    """Return the share in the loss of each token of an optimizer step.

    >>> step_weights(torch.tensor([1, 2]), torch.tensor([False, True]), "token-mean", None)
    tensor([0.0000, 0.5000, 0.5000])
    """
    if kept_M is None:
        return algo.token_weights(lengths_M, aggregation, norm_length=norm_length)
    counts = algo.BatchCounts.of(lengths_M * kept_M)
    weights_T = algo.token_weights(lengths_M, aggregation, counts=counts, norm_length=norm_length)
    return weights_T * spread(kept_M, lengths_M)
