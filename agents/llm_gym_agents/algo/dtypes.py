"""How wide to compute and what to give back.

Statistics and recursions run in float64: the float32 mean of three scores of 0.9 is off by 6e-8,
and ``6e-8 / (std + 1e-6)`` is an advantage of 0.06 out of nothing. Results are float32, or float64
when the caller works in float64, because they feed losses that should not widen by surprise.
"""

from __future__ import annotations

import torch
from torch import Tensor


def widen(values: Tensor) -> Tensor:
    """``values`` in the widest float of their device: float64, or float32 on Apple's MPS."""
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)


def at_least_float32(values: Tensor) -> Tensor:
    """``values`` unchanged if float32 or float64, else as float32 (bfloat16 loses 1e-2)."""
    return values.to(result_dtype(values))


def result_dtype(*tensors: Tensor | None) -> torch.dtype:
    """The dtype of a result computed from ``tensors``: float64 if one of them is, else float32."""
    wide = any(tensor is not None and tensor.dtype == torch.float64 for tensor in tensors)
    return torch.float64 if wide else torch.float32
