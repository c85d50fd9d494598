"""Putting weights into a model in place, all or none."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from llm_gym.errors import ConfigError


def load_in_place(model: nn.Module, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Copy tensors into the parameters and buffers of the same name.

    A tensor that already is the parameter costs nothing. Of parameters that share their memory
    one name is enough. Nothing is changed unless every name and shape fits.
    """
    given = dict(named_tensors)
    own: dict[str, Tensor] = model.state_dict(keep_vars=True)
    if unknown := sorted(given.keys() - own.keys()):
        raise ConfigError(f"the model has no weights called {_few(unknown)}; nothing was changed")
    for name, tensor in given.items():
        if tensor.shape != own[name].shape:
            raise ConfigError(
                f"{name} must have shape {tuple(own[name].shape)}, got {tuple(tensor.shape)}; "
                "nothing was changed"
            )
    reached = {id(own[name]) for name in given}
    missing = [name for name, one in model.named_parameters() if id(one) not in reached]
    if missing:
        raise ConfigError(f"weights are missing: {_few(missing)}; nothing was changed")
    with torch.no_grad():
        for name, tensor in given.items():
            if not _same(own[name], tensor):
                own[name].copy_(tensor)


def fingerprint(model: nn.Module) -> tuple[int, int]:
    """Return numbers that change when parameters are written to or replaced.

    A write through ``.data`` goes unnoticed.
    """
    writes = places = 0
    for parameter in model.parameters():
        writes += 0 if parameter.is_inference() else parameter._version
        places = hash((places, parameter.data_ptr()))
    return writes, places


def _same(one: Tensor, other: Tensor) -> bool:
    return (
        one.device == other.device
        and one.dtype == other.dtype
        and one.data_ptr() == other.data_ptr()
        and one.stride() == other.stride()
    )


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
