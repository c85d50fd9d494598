"""The one door to Liger: linear layer and cross-entropy as one, in chunks.

Shapes: T tokens, C hidden channels, V vocabulary.
"""

from __future__ import annotations

import importlib.util
import math

import torch
from torch import Tensor

LOGIT_BYTES = 1 << 28
"""Logits held at a time. Liger's own choice, tokens times channels, is a few rows where the
vocabulary is large, and a matrix product of a few rows is slow."""


def is_here() -> bool:
    """Whether Liger is installed."""
    return importlib.util.find_spec("liger_kernel") is not None


def takes(dtype: torch.dtype, bias: bool) -> bool:
    """Whether it can compute in ``dtype``, with or without a bias."""
    return dtype in (torch.float32, torch.bfloat16, torch.float16)


def negative_log_probs(
    hidden_TC: Tensor, weight_VC: Tensor, bias_V: Tensor | None, token_T: Tensor, cap: float | None
) -> Tensor:
    """Return ``-log softmax(cap(hidden weight + bias))`` of each token, in float32."""
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    (vocabulary, channels), tokens = weight_VC.shape, len(token_T)
    rows = max(1, LOGIT_BYTES // (vocabulary * hidden_TC.element_size()))
    budget = max(1, math.ceil(rows * vocabulary / max(1, tokens * channels)))
    found: Tensor = LigerFusedLinearCrossEntropyFunction.apply(
        hidden_TC, weight_VC, token_T, bias_V,
        None, -100, 0.0, 0.0, "none", cap,  # class weights, ignored id, z-loss, smoothing
        False, torch.float32, False, False, False, None, None, budget,
    )[0]  # fmt: skip
    return found
