"""From logits to tokens, for a batch whose rows each have their own settings.

One uniform number decides one token: the vocabulary, in the order of ids, is laid along [0, 1)
and the token is taken on which the number falls. So a row's token depends on its own logits,
settings and number, whatever the other rows ask for.

Shapes: B rows, V vocabulary, K uniform numbers per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from llm_gym_agents.engines.base import Sampling


@dataclass(frozen=True, slots=True)
class RowSettings:
    """The settings of a batch, a tensor each; None where no row asks for it."""

    temperature_B1: Tensor | None
    greedy_B: Tensor | None
    top_p_B1: Tensor | None
    top_k_B1: Tensor | None
    min_p_B1: Tensor | None
    uniform_BK: Tensor

    @classmethod
    def of(
        cls, rows: Sequence[Sampling], uniform_BK: npt.NDArray[Any], device: torch.device
    ) -> RowSettings:
        """Return the settings of ``rows`` on ``device``."""

        def column(values: list[float], neutral: float) -> Tensor | None:
            if all(value == neutral for value in values):
                return None
            return torch.tensor(values, dtype=torch.float32, device=device).unsqueeze(1)

        greedy = [row.temperature == 0 for row in rows]
        return cls(
            column([row.temperature or 1.0 for row in rows], 1.0),
            torch.tensor(greedy, device=device) if any(greedy) else None,
            # Rounding may bring the sum to 1 before the last token: a row without a limit has none.
            column([row.top_p if row.top_p < 1 else 2.0 for row in rows], 2.0),
            column([row.top_k or float("inf") for row in rows], float("inf")),
            column([row.min_p for row in rows], 0.0),
            torch.from_numpy(uniform_BK).to(device),
        )


def sample(logits_BV: Tensor, settings: RowSettings, step: int) -> tuple[Tensor, Tensor]:
    """Return the token of each row and its log-prob; ``step`` says which uniform number to use.

    Log-probs are those of ``base.Sampling``: tempered, over the whole vocabulary. Where logits
    are not numbers, neither is the log-prob.
    """
    logits_BV = logits_BV.float()
    if settings.temperature_B1 is not None:
        logits_BV = logits_BV / settings.temperature_B1
    log_probs_BV = logits_BV.log_softmax(-1)
    token_B1 = _draw(_choose(log_probs_BV.exp(), settings), settings.uniform_BK[:, step, None])
    if settings.greedy_B is not None:
        best_B1 = logits_BV.argmax(-1, keepdim=True)
        token_B1 = torch.where(settings.greedy_B.unsqueeze(1), best_B1, token_B1)
    return token_B1.squeeze(1), log_probs_BV.gather(1, token_B1).squeeze(1)


def _draw(probs_BV: Tensor, uniform_B1: Tensor) -> Tensor:
    # In float64 the sum of a large vocabulary is not yet blurred by rounding.
    sums_BV = probs_BV.cumsum(-1, dtype=torch.float64)
    target_B1 = uniform_B1 * sums_BV[:, -1:]
    # The first sum *above* the target, so a token of probability 0 is never taken.
    return torch.searchsorted(sums_BV, target_B1, right=True).clamp_(max=probs_BV.shape[1] - 1)


def _choose(probs_BV: Tensor, settings: RowSettings) -> Tensor:
    """Return the probabilities with 0 for tokens that top-p, top-k or min-p leave out."""
    if settings.min_p_B1 is not None:
        floor_B1 = settings.min_p_B1 * probs_BV.amax(-1, keepdim=True)
        chosen_BV = probs_BV.masked_fill(probs_BV < floor_B1, 0.0)
    else:
        chosen_BV = probs_BV
    if settings.top_p_B1 is None and settings.top_k_B1 is None:
        return chosen_BV
    # Stable: of equally likely tokens the one with the lower id comes first, on every device.
    sorted_BV, order_BV = probs_BV.sort(stable=True, dim=-1, descending=True)
    drop_BV = torch.zeros_like(sorted_BV, dtype=torch.bool)
    if settings.top_p_B1 is not None:
        before_BV = sorted_BV.cumsum(-1, dtype=torch.float64) - sorted_BV
        drop_BV |= before_BV >= settings.top_p_B1
    if settings.top_k_B1 is not None:
        rank_V = torch.arange(sorted_BV.shape[1], device=sorted_BV.device)
        drop_BV |= rank_V >= settings.top_k_B1
    dropped_BV = torch.zeros_like(drop_BV).scatter(1, order_BV, drop_BV)
    return chosen_BV.masked_fill(dropped_BV, 0.0)
