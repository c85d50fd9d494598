"""How many of torch's threads a model is worth."""

from __future__ import annotations

import os

import torch
from torch import nn

_SMALL = 1_000_000
"""Weights; the model that is made on the spot has a tenth of them."""


def spare_threads(lm: nn.Module) -> None:
    """Give a small model on the CPU one thread, unless ``OMP_NUM_THREADS`` says otherwise.

    Its tensors are too small to be shared: threads spin while they wait for each other, and on a
    busy machine most of the time. For commands: it holds for the whole process.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return
    weights = list(lm.parameters())
    on_cpu = all(each.device.type == "cpu" for each in weights)
    if on_cpu and sum(each.numel() for each in weights) < _SMALL:
        torch.set_num_threads(1)
