"""Aggregate losses per token to one number that does not depend on micro-batches.

Every mode is a weighted sum, and the weight of a token depends only on its episode's length and on
counts of the whole batch. So the weights are computed once per optimizer step, and a micro-batch
sums its weighted losses: any split into micro-batches gives the gradient of the whole batch.

Shapes: T sampled tokens of all episodes, E episodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo.tensor_ops import StreamError, result_dtype, spread

Aggregation = Literal[
    "token-mean",
    "token-sum",
    "seq-mean-token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum-norm",
]
"""How losses per token become one loss; see ``token_weights``."""
AGGREGATIONS: tuple[str, ...] = get_args(Aggregation)
"""The modes of ``Aggregation``."""


@dataclass(frozen=True, kw_only=True)
class BatchCounts:
    """The counts of one optimizer step, over all its micro-batches and processes."""

    tokens: int
    episodes: int
    """Episodes with at least one sampled token."""

    @classmethod
    def of(cls, lengths_E: Tensor) -> BatchCounts:
        """The counts of the episodes of ``lengths_E``.

        >>> BatchCounts.of(torch.tensor([2, 0, 1]))
        BatchCounts(tokens=3, episodes=2)
        """
        return cls(tokens=int(lengths_E.sum()), episodes=int((lengths_E > 0).sum()))


def token_weights(
    lengths_E: Tensor,
    mode: Aggregation = "token-mean",
    *,
    counts: BatchCounts | None = None,
    norm_length: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The weight of each token, so that the loss is ``(weights_T * loss_T).sum()``.

    Args:
        lengths_E: Sampled tokens of each whole episode of this process.
        mode: ``token-mean`` weighs every token of the batch equally; ``seq-mean-token-mean``
            every episode; ``seq-mean-token-sum`` sums an episode's tokens and averages over
            episodes; ``-norm`` divides that by ``norm_length``; ``token-sum`` divides by nothing.
        counts: Counts of the whole optimizer step; None takes those of ``lengths_E``.
        norm_length: A constant length, such as the maximum number of tokens of an episode.
        dtype: Dtype of the weights.

    >>> token_weights(torch.tensor([1, 3]), "seq-mean-token-mean")
    tensor([0.5000, 0.1667, 0.1667, 0.1667])
    """
    if mode not in AGGREGATIONS:
        raise ConfigError(f"aggregation must be one of {', '.join(AGGREGATIONS)}, got {mode!r}")
    counts = counts or BatchCounts.of(lengths_E)
    weight_E = torch.ones(lengths_E.shape, dtype=dtype, device=lengths_E.device)
    if mode == "token-mean":
        weight_E /= max(counts.tokens, 1)
    elif mode != "token-sum":
        weight_E /= max(counts.episodes, 1)
    if mode == "seq-mean-token-mean":
        weight_E /= lengths_E.clamp(min=1)
    if mode == "seq-mean-token-sum-norm":
        if norm_length is None or norm_length <= 0:
            raise ConfigError(
                f"seq-mean-token-sum-norm needs a norm_length above 0, got {norm_length}; "
                "pass the most tokens an episode may have, the same for every batch"
            )
        weight_E /= norm_length
    elif norm_length is not None:
        raise ConfigError(
            f"norm_length belongs to seq-mean-token-sum-norm, got {norm_length} with {mode!r}"
        )
    return spread(weight_E, lengths_E)


def aggregate_loss(
    loss_T: Tensor,
    lengths_E: Tensor,
    mode: Aggregation = "token-mean",
    *,
    counts: BatchCounts | None = None,
    norm_length: float | None = None,
) -> Tensor:
    """The loss of a batch of whole episodes; see ``token_weights`` for the arguments.

    >>> aggregate_loss(torch.tensor([1.0, 2.0, 7.0]), torch.tensor([2, 1]), "seq-mean-token-mean")
    tensor(4.2500)
    """
    if loss_T.shape != (int(lengths_E.sum()),):
        raise StreamError(
            f"loss_T must have one entry per token, got shape {tuple(loss_T.shape)} "
            f"for {int(lengths_E.sum())} tokens"
        )
    weights_T = token_weights(
        lengths_E, mode, counts=counts, norm_length=norm_length, dtype=result_dtype(loss_T)
    )
    return (weights_T * loss_T).sum()
