"""Weights that are spread over processes, each of which holds a part (``DTensor``)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.distributed.tensor import DTensor


def whole(tensor: Tensor) -> Tensor:
    """Return all of ``tensor``; where it is spread, every process has to ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def is_spread(module: nn.Module) -> bool:
    """Whether the weights of ``module`` are spread over processes."""
    return any(isinstance(parameter, DTensor) for parameter in module.parameters())


def identity(tensor: Tensor) -> int:
    """Return a number that two names of one weight have in common."""
    return id(tensor) if isinstance(tensor, DTensor) else tensor.data_ptr()
