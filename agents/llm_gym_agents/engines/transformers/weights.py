"""Putting weights into a model in place, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from llm_gym.errors import ConfigError


def load_in_place(model: nn.Module, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Copy tensors into the parameters and buffers of the same name.

    A tensor that already is the parameter costs nothing. Of parameters that share their memory
    one name is enough. Nothing is changed unless every name and shape fits.
    """
    given = dict(named_tensors)
    own = _checked(model, given)
    need_all(model, {id(own[name]) for name in given}, "; nothing was changed")
    _copy(own, given)


def load_some(model: nn.Module, given: Mapping[str, Tensor]) -> set[int]:
    """Copy tensors in place, all or none; return what was reached, for ``need_all``."""
    own = _checked(model, given)
    _copy(own, given)
    return {id(own[name]) for name in given}


def need_all(model: nn.Module, reached: set[int], fate: str = "") -> None:
    """Raise ``ConfigError`` unless every parameter was reached, under one of its names."""
    missing = [name for name, one in model.named_parameters() if id(one) not in reached]
    if missing:
        raise ConfigError(f"weights are missing: {_few(missing)}{fate}")


def _checked(model: nn.Module, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the model's own tensors, if every one of ``given`` fits its own."""
    own: dict[str, Tensor] = model.state_dict(keep_vars=True)
    if unknown := sorted(given.keys() - own.keys()):
        raise ConfigError(f"the model has no weights called {_few(unknown)}; nothing was changed")
    for name, tensor in given.items():
        if tensor.shape != own[name].shape:
            raise ConfigError(
                f"{name} must have shape {tuple(own[name].shape)}, got {tuple(tensor.shape)}; "
                "nothing was changed"
            )
    return own


@torch.no_grad()
def _copy(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
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
