"""Sums, means and whitening of the entries under a mask.

What lies outside the mask has no influence, NaN and inf included, in the result or in the
gradient. Every statistic has an answer for no entry and for one entry: the sum, mean and
variance of nothing are 0, the variance of one entry is 0, and whitening one entry gives 0. A
batch with one trainable token is rare, but it must not stop a run.
"""

from __future__ import annotations

import torch
from torch import Tensor

from llm_gym_agents.algo.dtypes import result_dtype, widen
from llm_gym_agents.algo.errors import StreamError


def masked_sum(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Sum of ``values`` where ``mask`` is true; everywhere without a mask.

    >>> masked_sum(torch.tensor([1.0, float("nan"), 3.0]), torch.tensor([1, 0, 1]))
    tensor(4.)
    """
    return _kept(values, mask).sum().to(result_dtype(values))


def masked_mean(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean of ``values`` where ``mask`` is true; 0 when the mask is empty.

    >>> masked_mean(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1, 1, 0, 1]))
    tensor(2.3333)
    """
    return _mean(values, mask).to(result_dtype(values))


def masked_var(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Unbiased variance of ``values`` where ``mask`` is true; 0 for fewer than two entries.

    >>> masked_var(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1, 1, 0, 1]))
    tensor(2.3333)
    """
    return _var(values, mask).to(result_dtype(values))


def masked_whiten(
    values: Tensor,
    mask: Tensor | None = None,
    *,
    shift_mean: bool = True,
    epsilon: float = 1e-8,
) -> Tensor:
    """``values`` scaled to mean 0 and variance 1 where ``mask`` is true, 0 elsewhere.

    Args:
        values: Any shape.
        mask: Of the same shape; None takes every entry.
        shift_mean: False keeps the mean and changes only the spread.
        epsilon: Added to the variance, so that equal entries give 0 and not a division by 0.
    """
    mean = _mean(values, mask)
    scale = (_var(values, mask) + epsilon).rsqrt()
    whitened = (_kept(values, mask) - mean) * scale
    if not shift_mean:
        whitened = whitened + mean
    return _kept(whitened, mask).to(result_dtype(values))


def _mean(values: Tensor, mask: Tensor | None) -> Tensor:
    return _kept(values, mask).sum() / _count(values, mask).clamp(min=1)


def _var(values: Tensor, mask: Tensor | None) -> Tensor:
    deviations = _kept(_kept(values, mask) - _mean(values, mask), mask)
    return deviations.square().sum() / (_count(values, mask) - 1).clamp(min=1)


def _kept(values: Tensor, mask: Tensor | None) -> Tensor:
    # Selected, never multiplied: NaN * 0 is NaN, forwards and backwards.
    wide = widen(values)
    return wide if mask is None else torch.where(_as_bool(values, mask), wide, 0.0)


def _count(values: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return torch.tensor(values.numel(), device=values.device)
    return _as_bool(values, mask).sum()


def _as_bool(values: Tensor, mask: Tensor) -> Tensor:
    if mask.shape != values.shape:
        raise StreamError(
            "mask must have the shape of values, "
            f"got mask {tuple(mask.shape)} for values {tuple(values.shape)}"
        )
    return mask.bool()
