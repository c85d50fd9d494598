"""Between padded rows and the flat stream: take the sampled tokens out, put results back.

Shapes: E episodes (rows), L positions of a row, T sampled tokens of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from llm_gym_agents.algo.errors import StreamError


@dataclass(frozen=True, eq=False)
class PaddedRows:
    """Takes tokens out of padded rows and puts them back."""

    mask_EL: Tensor

    def __post_init__(self) -> None:
        binary = bool(((self.mask_EL == 0) | (self.mask_EL == 1)).all())
        if self.mask_EL.ndim != 2 or not binary:
            raise StreamError(
                "response_mask must be rows of 0 and 1, "
                f"got shape {tuple(self.mask_EL.shape)}" + ("" if binary else " with other values")
            )

    @property
    def lengths_E(self) -> Tensor:
        """Sampled tokens of each row."""
        return self.mask_EL.bool().sum(1)

    @property
    def turn_ends_T(self) -> Tensor:
        """True on the last token of each run of sampled tokens."""
        mask_EL = self.mask_EL.bool()
        ends_EL = mask_EL.clone()
        ends_EL[:, :-1] &= ~mask_EL[:, 1:]
        return ends_EL[mask_EL]

    def pack(self, name: str, values_EL: Tensor) -> Tensor:
        """The sampled tokens of ``values_EL``, row after row."""
        if values_EL.shape != self.mask_EL.shape:
            raise StreamError(
                f"{name} must have the shape of response_mask, "
                f"got {tuple(values_EL.shape)} for {tuple(self.mask_EL.shape)}"
            )
        return values_EL[self.mask_EL.bool()]

    def pack_rewards(self, rewards_EL: Tensor) -> Tensor:
        """The rewards of the sampled tokens; a reward anywhere else would be lost and raises."""
        reward_T = self.pack("token_level_rewards", rewards_EL)
        lost_EL = ~self.mask_EL.bool() & rewards_EL.isfinite() & (rewards_EL != 0)
        if bool(lost_EL.any()):
            row, position = lost_EL.nonzero()[0].tolist()
            raise StreamError(
                "a reward must sit on a sampled token, "
                f"got {rewards_EL[row, position].item():g} at row {row}, position {position}, "
                "where response_mask is 0; put it on the last sampled token of its turn"
            )
        return reward_T

    def unpack(self, values_T: Tensor) -> Tensor:
        """Rows with ``values_T`` on the sampled tokens and 0 elsewhere."""
        mask_EL = self.mask_EL.bool()
        zeros_EL = torch.zeros(mask_EL.shape, dtype=values_T.dtype, device=values_T.device)
        return zeros_EL.masked_scatter(mask_EL, values_T)
