"""How near two ways to compute the same logits must be: what is structurally wrong is further off.

Masks, positions, heads and scales differ between families of models in ways no list keeps up with,
so whoever computes in a way of its own tries it once, against the model's own ``forward``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from llm_gym.errors import ConfigError

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3}
"""Largest error of a logit, in standard deviations of the logits."""
COARSE = 0.25
"""The same in 16 bits."""
NOTHING = 1e-6
"""A model whose logits are all alike has no spread."""
_CANNOT = (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError)
"""What a model raises that was not made to be called so."""
_MACHINE = (torch.OutOfMemoryError, torch.AcceleratorError)
_MACHINE_SAYS = ("cuda", "cublas", "cudnn")
"""How a ``RuntimeError`` begins that is the machine's too."""


def agrees(gap: float, spread: float, dtype: torch.dtype) -> bool:
    """Whether logits computed in ``dtype`` are as near as rounding puts them; NaN is not."""
    return gap <= TOLERANCE.get(dtype, COARSE) * spread + NOTHING


@contextmanager
def refusing(what: str, advice: str = "") -> Iterator[None]:
    """Say ``what``, why and an advice where a model raises; faults of the machine stay as they are.

    >>> with refusing("Bert cannot be decoded"):
    ...     raise TypeError("no position_ids" + chr(10) + "and so on")
    Traceback (most recent call last):
    llm_gym.errors.ConfigError: Bert cannot be decoded: no position_ids
    """
    try:
        yield
    except (ConfigError, *_MACHINE):  # says more than that it cannot
        raise
    except _CANNOT as error:
        why = str(error).partition("\n")[0]
        if why.lower().startswith(_MACHINE_SAYS):
            raise
        raise ConfigError(f"{what}: {why}{advice}") from error


@contextmanager
def full_float32() -> Iterator[None]:
    """Multiply in full: with TF32 two ways are as far apart as a mistake would put them."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
