"""``RolloutData``: the sampled tokens of a batch of episodes, flat, with what the model read.

A *sequence* is what the model reads in one go: a whole episode in history context, one turn in
observation context, and after a truncated episode one more position, where its value is taken
for the bootstrap. Sequences lie one after another in ``ids``; nothing is padded.

Shapes: S ids of all sequences, Q sequences, T sampled tokens, E episodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorClass
from torch import Tensor

from llm_gym.errors import ConfigError

NO_POSITION = -1


class RolloutData(TensorClass):
    """Episodes in id order, their turns in order, their sampled tokens in order."""

    ids_S: Tensor
    sequence_lengths_Q: Tensor
    position_T: Tensor
    """Index into ``ids_S`` of the position that predicts each sampled token."""
    token_T: Tensor
    """The sampled ids."""
    sampler_log_prob_T: Tensor
    version_T: Tensor
    """Version of the weights that sampled each token."""
    turn_ends_T: Tensor
    """True on the last sampled token of each turn."""
    reward_T: Tensor
    """A turn's reward, on its last sampled token."""
    lengths_E: Tensor
    """Sampled tokens of each episode."""
    sequences_E: Tensor
    """Sequences of each episode."""
    terminated_E: Tensor
    bootstrap_E: Tensor
    """Index into ``ids_S`` where a truncated episode's value is read, else ``NO_POSITION``."""
    group_E: Tensor
    episode_E: Tensor
    cut_E: Tensor | None = None
    """Whether a reply of each episode was cut at its most tokens; None where nobody said."""

    @property
    def tokens(self) -> int:
        """Sampled tokens."""
        return self.token_T.numel()

    @classmethod
    def cat(cls, parts: Sequence[RolloutData]) -> RolloutData:
        """Return the episodes of ``parts``, one part after another, as if assembled at once."""
        if not parts:
            raise ConfigError("at least one part is needed to put a batch together, got none")
        fields = {
            name: torch.cat([getattr(part, name) for part in parts])
            for name in _FIELDS
            if all(getattr(part, name) is not None for part in parts)
        }  # positions are still counted from each part's own first id
        first, positions, bootstraps = 0, [], []
        for part in parts:
            positions.append(part.position_T + first)
            none_E = part.bootstrap_E == NO_POSITION
            bootstraps.append(torch.where(none_E, NO_POSITION, part.bootstrap_E + first))
            first += part.ids_S.numel()
        fields |= {"position_T": torch.cat(positions), "bootstrap_E": torch.cat(bootstraps)}
        return cls(**fields, batch_size=[])


_FIELDS = tuple(RolloutData.__annotations__)
