"""``Part``: what one component of a run needs to go on, as tensors and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from llm_gym.errors import LLMGymError


class CheckpointError(LLMGymError, RuntimeError):
    """A checkpoint cannot be written, or what is there is not one that can be used."""


@dataclass(kw_only=True)
class Part:
    """The state of one component: an optimizer, a critic, a counter."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: Any = None
    """Anything made of dictionaries with text keys, lists, text, numbers, True, False and None."""


def as_json(value: Any, where: str) -> Any:
    """Return ``value`` as JSON reads it back, or raise a sentence that says where it is not JSON.

    Tuples become lists and numpy's scalars plain numbers. NaN and infinity stay: Python's JSON
    has them, and a metric that went wrong must not cost a checkpoint.

    >>> as_json({"betas": (0.9, 0.999)}, "optimizer")
    {'betas': [0.9, 0.999]}
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [as_json(each, f"{where}[{at}]") for at, each in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: as_json(each, f"{where}.{key}") for key, each in value.items()}
    raise CheckpointError(
        f"{where} must be JSON to be saved, got {type(value).__name__}; tensors go into "
        "Part.tensors, and keys of dictionaries must be text"
    )
