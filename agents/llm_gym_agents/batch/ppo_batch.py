"""``PPOBatch``: what one forward and backward pass of an update reads.

Shapes: S ids of all sequences, Q sequences, T sampled tokens, M episodes.
"""

from __future__ import annotations

from tensordict import TensorClass, TensorDict
from torch import Tensor

from llm_gym_agents.batch.pack import Pack


class PPOBatch(TensorClass):
    """Whole episodes of a batch, as many as fit the token budget."""

    ids: Tensor
    """What the model reads, ``[S]``."""
    sequence_lengths: Tensor
    position: Tensor
    """Index into ``ids`` of the position that predicts each sampled token, ``[T]``."""
    token: Tensor
    """The sampled ids, ``[T]``."""
    lengths: Tensor
    """Sampled tokens of each episode, ``[M]``."""
    loss_weight: Tensor
    """Share of each token in the loss of the whole optimizer step, ``[T]``."""
    advantage: Tensor
    """``[T, 1]``, like values and their targets."""
    old_log_prob: Tensor | None = None
    """Log-prob of each token before the update, by the trainer's own pass, ``[T]``; None where
    this very pass is the first."""
    sampler_log_prob: Tensor | None = None
    """What the engine said, where this pass is the first."""
    value: Tensor | None = None
    """From before the update, ``[T, 1]``."""
    value_target: Tensor | None = None
    ref_log_prob: Tensor | None = None
    importance_weight: Tensor | None = None


def micro_batch(pack: Pack, batch: TensorDict, weights_T: Tensor) -> PPOBatch:
    """Return what one forward and backward pass reads: a pack, and what is known of its tokens."""
    device = pack.ids_S.device
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
