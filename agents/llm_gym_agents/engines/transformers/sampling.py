"""From logits to tokens, for a batch whose rows each have their own settings.

One uniform number decides one token: the vocabulary, in the order of ids, is laid along [0, 1)
and the token is taken on which the number falls. So a row's token depends on its own logits,
settings and number alone.

``uniforms`` makes these numbers. Number ``i`` of a seed is a function of both (Philox4x32-10,
Salmon et al., 2011, on numpy arrays), so it does not depend on the other replies of a batch.

Shapes: B rows, V vocabulary, K uniform numbers per row, N seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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
    """Return the probabilities with 0 for tokens that top-p leaves out."""
    if settings.top_p_B1 is None:
        return probs_BV
    # Stable: of equally likely tokens the one with the lower id comes first, on every device.
    sorted_BV, order_BV = probs_BV.sort(stable=True, dim=-1, descending=True)
    drop_BV = sorted_BV.cumsum(-1, dtype=torch.float64) - sorted_BV >= settings.top_p_B1
    return probs_BV.masked_fill(torch.zeros_like(drop_BV).scatter(1, order_BV, drop_BV), 0.0)


Words = npt.NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_ROUNDS = 10
_SEED_MASK = 2**64 - 1


def uniforms(seeds: Sequence[int], starts: Sequence[int], count: int) -> npt.NDArray[np.float64]:
    """Return ``[N, K]``: for each seed its numbers ``start`` to ``start + count``, in [0, 1).

    >>> first = uniforms([7, 8], [0, 0], 4)
    >>> bool((uniforms([8], [2], 2) == first[1:, 2:]).all())
    True
    """
    seeds_N: Words = np.array([seed & _SEED_MASK for seed in seeds], dtype=np.uint64)
    starts_N: Words = np.array(starts, dtype=np.uint64)
    # A counter gives four words, hence two numbers of 53 bits: begin at an even one.
    pairs = count // 2 + 1
    ahead_P: Words = np.arange(pairs, dtype=np.uint64)
    pair_NP: Words = (starts_N >> np.uint64(1))[:, None] + ahead_P
    zero: Words = np.zeros_like(pair_NP)
    words = philox(
        (pair_NP & _LOW, pair_NP >> _SHIFT, zero, zero),
        ((seeds_N & _LOW)[:, None], (seeds_N >> _SHIFT)[:, None]),
    )
    numbers = np.stack([_to_unit(*words[:2]), _to_unit(*words[2:])], axis=-1)
    flat_NK = numbers.reshape(len(seeds_N), 2 * pairs)
    if not (starts_N & np.uint64(1)).any():
        return flat_NK[:, :count]
    odd_N = (starts_N & np.uint64(1)).astype(np.intp)
    return np.take_along_axis(flat_NK, odd_N[:, None] + np.arange(count), axis=1)


def philox(counter: tuple[Words, ...], key: tuple[Words, ...]) -> tuple[Words, ...]:
    """Return four words of 32 bits for four words of counter and two of key, all in uint64."""
    a, b, c, d = counter
    low_key, high_key = key
    for _ in range(_ROUNDS):
        ab, cd = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (
            (cd >> _SHIFT) ^ b ^ low_key,
            cd & _LOW,
            (ab >> _SHIFT) ^ d ^ high_key,
            ab & _LOW,
        )
        low_key = (low_key + _STEPS[0]) & _LOW
        high_key = (high_key + _STEPS[1]) & _LOW
    return a, b, c, d


def _to_unit(high: Words, low: Words) -> npt.NDArray[np.float64]:
    return ((high >> np.uint64(5)) * 67108864.0 + (low >> np.uint64(6))) / 9007199254740992.0
