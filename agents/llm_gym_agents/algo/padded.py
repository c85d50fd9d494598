"""The same algorithms on padded rows: one row per episode and a mask of its sampled tokens.

Each function packs the sampled tokens into a stream, calls the packed function, and unpacks the
result with 0 at every other position. Consecutive tokens inside the mask are a turn; tokens
between two turns are an observation. Arguments without a description have the meaning and the
default of the packed function.

Shapes: E episodes (rows), L positions of a row, T sampled tokens of all rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from llm_gym_agents.algo.advantages.groups import group_ids
from llm_gym_agents.algo.losses.aggregate import Aggregation, aggregate_loss
from llm_gym_agents.algo.losses.kl import kl_in_rewards
from llm_gym_agents.algo.losses.objective import value_loss
from llm_gym_agents.algo.losses.policy_loss import (
    ClipRatio,
    PolicyInputs,
    TokenLoss,
    get_policy_loss,
)
from llm_gym_agents.algo.registry import get_advantage
from llm_gym_agents.algo.stream import TokenStream
from llm_gym_agents.algo.tensor_ops import StreamError


def compute_advantage(
    name: str,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    *,
    values: Tensor | None = None,
    index: Tensor | Iterable[Hashable] | None = None,
    bootstrap: Tensor | None = None,
    **settings: Any,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns of padded rows with the estimator called ``name``.

    Args:
        name: A registered estimator.
        token_level_rewards: ``[E, L]``; 0 where ``response_mask`` is 0.
        response_mask: ``[E, L]``, 1 on sampled tokens.
        values: ``[E, L]``, the critic's values.
        index: A label per row, equal for rows of one start.
        bootstrap: ``[E]``, the value after the final observation of a truncated row, 0 for a
            row that terminated. None means that all terminated.
        **settings: The estimator's own settings; an unknown one raises.
    """
    rows = PaddedRows(response_mask)
    stream = TokenStream(
        reward_T=rows.pack_rewards(token_level_rewards),
        lengths_E=rows.lengths_E,
        value_T=None if values is None else rows.pack("values", values),
        turn_ends_T=rows.turn_ends_T,
        terminated_E=None if bootstrap is None else torch.zeros_like(bootstrap, dtype=torch.bool),
        bootstrap_E=bootstrap,
        group_E=None if index is None else group_ids(index, device=response_mask.device),
    )
    advantages_T, returns_T = get_advantage(name)(stream, **settings)
    return rows.unpack(advantages_T), rows.unpack(returns_T)


def compute_gae_advantage_return(
    token_level_rewards: Tensor,
    values: Tensor,
    response_mask: Tensor,
    gamma: float,
    lam: float,
    bootstrap: Tensor | None = None,
    **settings: Any,
) -> tuple[Tensor, Tensor]:
    """GAE over the sampled tokens of padded rows: whitened advantages and returns."""
    given = {"gamma": gamma, "lam": lam, **settings}
    return compute_advantage(
        "gae", token_level_rewards, response_mask, values=values, bootstrap=bootstrap, **given
    )


def compute_grpo_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Tensor | Iterable[Hashable],
    **settings: Any,
) -> tuple[Tensor, Tensor]:
    """GRPO's advantages of padded rows, and each row's score as its return."""
    return compute_advantage("grpo", token_level_rewards, response_mask, index=index, **settings)


def compute_policy_loss(
    old_log_probs: Tensor,
    log_probs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    clip_ratio: ClipRatio | None = None,
    *,
    policy_loss: str = "ppo",
    aggregation: Aggregation = "token-mean",
    **settings: Any,
) -> tuple[Tensor, dict[str, float]]:
    """The policy loss of padded rows and its metrics.

    Args:
        old_log_probs: ``[E, L]``, from the trainer's own pass before the update.
        log_probs: ``[E, L]``, of the policy in training.
        advantages: ``[E, L]``.
        response_mask: ``[E, L]``, 1 on sampled tokens.
        clip_ratio: One number, or ``(low, high)``; None takes the default of the loss.
        policy_loss: A registered policy loss.
        aggregation: See ``token_weights``; ``norm_length`` is the row length.
        **settings: The loss's own settings, such as ``dual_clip``; an unknown one raises.
    """
    rows = PaddedRows(response_mask)
    if clip_ratio is not None:
        settings["clip_ratio"] = clip_ratio
    inputs = PolicyInputs(
        log_prob_T=rows.pack("log_probs", log_probs),
        old_log_prob_T=rows.pack("old_log_probs", old_log_probs),
        advantages_T=rows.pack("advantages", advantages),
        lengths_E=rows.lengths_E,
    )
    return _reduce(get_policy_loss(policy_loss)(inputs, **settings), rows, aggregation)


def compute_value_loss(
    vpreds: Tensor,
    returns: Tensor,
    old_values: Tensor,
    response_mask: Tensor,
    cliprange_value: float | None = 0.5,
    *,
    aggregation: Aggregation = "token-mean",
) -> tuple[Tensor, dict[str, float]]:
    """The critic's loss of padded rows and its metrics; see ``value_loss``."""
    rows = PaddedRows(response_mask)
    value = value_loss(
        rows.pack("vpreds", vpreds),
        rows.pack("returns", returns),
        rows.pack("old_values", old_values),
        cliprange_value=cliprange_value,
    )
    return _reduce(value, rows, aggregation)


def apply_kl_penalty(
    token_level_rewards: Tensor,
    log_probs: Tensor,
    ref_log_probs: Tensor,
    response_mask: Tensor,
    kl_coef: float,
) -> tuple[Tensor, float]:
    """Rewards of padded rows minus ``kl_coef`` times the KL, and the mean KL of a row."""
    rows = PaddedRows(response_mask)
    reward_T, mean_kl = kl_in_rewards(
        rows.pack_rewards(token_level_rewards),
        rows.pack("log_probs", log_probs),
        rows.pack("ref_log_probs", ref_log_probs),
        rows.lengths_E,
        kl_coef=kl_coef,
    )
    return rows.unpack(reward_T), mean_kl.item()


def _reduce(
    terms: TokenLoss, rows: PaddedRows, aggregation: Aggregation
) -> tuple[Tensor, dict[str, float]]:
    norm_length = rows.mask_EL.shape[1] if aggregation == "seq-mean-token-sum-norm" else None
    loss = aggregate_loss(terms.loss_T, rows.lengths_E, aggregation, norm_length=norm_length)
    tokens = max(int(rows.lengths_E.sum()), 1)
    return loss, {name: (each_T.sum() / tokens).item() for name, each_T in terms.metrics_T.items()}


# --- rows and stream ------------------------------------------------------------------


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
