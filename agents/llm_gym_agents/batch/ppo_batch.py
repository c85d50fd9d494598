"""``PPOBatch``: the micro-batch of one forward and backward pass.

Shapes: S ids of all sequences, Q sequences, T sampled tokens, M episodes.
"""

from __future__ import annotations

from tensordict import TensorClass, TensorDict
from torch import Tensor

from llm_gym_agents.batch.pack import Pack


class PPOBatch(TensorClass):
    """Episodes of a batch that fit the token budget."""

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
    """Weight of each token in the loss of the optimizer step, ``[T]``."""
    advantage: Tensor
    """``[T, 1]``, like values and their targets."""
    old_log_prob: Tensor | None = None
    """Log-probs of the trainer before the update, ``[T]``; None if this is its first pass."""
    sampler_log_prob: Tensor | None = None
    """Log-probs of the engine, if this is the first pass."""
    value: Tensor | None = None
    """Before the update, ``[T, 1]``."""
    value_target: Tensor | None = None
    ref_log_prob: Tensor | None = None
    importance_weight: Tensor | None = None


def micro_batch(pack: Pack, batch: TensorDict, weights_T: Tensor) -> PPOBatch:
    """Return the micro-batch of a pack; ``batch`` holds the fields per token."""
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
