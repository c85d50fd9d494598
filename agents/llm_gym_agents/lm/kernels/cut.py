"""The one door to cut-cross-entropy: no logits in memory at all.

It skips gradients that bfloat16 would round away beside others of their block; here it is told not
to, because a policy gradient is a difference of such small things.

Shapes: T tokens, C hidden channels, V vocabulary.
"""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor


def is_here() -> bool:
    """Whether cut-cross-entropy is installed."""
    return importlib.util.find_spec("cut_cross_entropy") is not None


def takes(dtype: torch.dtype, bias: bool) -> bool:
    """Whether it can compute in ``dtype``, with or without a bias."""
    return dtype in (torch.bfloat16, torch.float16) and not bias


def negative_log_probs(
    hidden_TC: Tensor, weight_VC: Tensor, bias_V: Tensor | None, token_T: Tensor, cap: float | None
) -> Tensor:
    """Return ``-log softmax(cap(hidden weight))`` of each token, in float32."""
    from cut_cross_entropy import linear_cross_entropy

    found: Tensor = linear_cross_entropy(
        hidden_TC, weight_VC, token_T, softcap=cap, reduction="none", filter_eps=None
    )
    return found.float()
