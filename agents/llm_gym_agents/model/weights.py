"""The weights of a language model under plain Hugging Face names, LoRA merged, shards gathered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from llm_gym.core.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def served_weights(lm: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights as a serving engine knows them: Hugging Face names, adapters merged.

    One at a time, so that no second model exists. Sharded weights are gathered, so every process
    must iterate. A weight that two layers share comes once, under its first name.
    """
    plain = plain_lm(lm)
    layers = adapted_layers(plain)
    for name, own, owner in _served(plain):
        tensor = own if owner is None else _merged(layers[owner], owner, own)
        yield name, full_tensor(tensor.detach())


def served_names(lm: PreTrainedModel) -> list[str]:
    """Return the names of ``served_weights``, without gathering any."""
    return [name for name, _, _ in _served(plain_lm(lm))]


def plain_lm(lm: Any) -> Any:
    """Return the Hugging Face model without peft's wrapper."""
    return lm.get_base_model() if hasattr(lm, "get_base_model") else lm


def adapted_layers(plain: nn.Module) -> dict[str, Any]:
    """Return the layers that have adapters, by name."""
    return {name: m for name, m in plain.named_modules() if hasattr(m, "get_delta_weight")}


def merged_weights(
    plain: nn.Module, layers: dict[str, Any], *, keep: bool = True
) -> dict[str, Tensor]:
    """Return the weights with adapters merged, under the names of the plain model.

    Sharded ones are gathered on the CPU, one by one, and dropped unless this process keeps
    them (``keep``).
    """
    found: dict[str, Tensor] = {}
    whole_ones: dict[int, Tensor] = {}
    for name, own, owner in _named(plain, buffers=True):
        tensor = (own if owner is None else _merged(layers[owner], owner, own)).detach()
        if isinstance(own, DTensor):
            shared = whole_ones.get(id(own)) if owner is None else None
            tensor = full_tensor(tensor).cpu() if shared is None else shared
            whole_ones[id(own)] = tensor if keep else tensor.new_empty(0)
        if keep:
            found[name] = tensor
    return found


def _served(plain: nn.Module) -> Iterator[tuple[str, Tensor, str | None]]:
    """Yield what ``_named`` does, a weight that has several names under its first."""
    seen: set[int] = set()
    for name, tensor, owner in _named(plain):
        if owner is None and storage_id(tensor) in seen:
            continue
        seen.add(storage_id(tensor))
        yield name, tensor, owner


def _named(plain: nn.Module, buffers: bool = False) -> Iterator[tuple[str, Tensor, str | None]]:
    """Yield the plain name of each weight, the weight, and the layer that adapts it, if any."""
    own: dict[str, Tensor] = dict(plain.named_parameters(remove_duplicate=False))
    if buffers:
        own = plain.state_dict(keep_vars=True)
    for name, tensor in own.items():
        if ".lora_" in name:
            continue
        owner, found, rest = name.rpartition(".base_layer.")
        plain_name = f"{owner}.{rest}" if found else name
        yield plain_name, tensor, owner if found and rest == "weight" else None


@torch.no_grad()
def _merged(layer: Any, name: str, weight: Tensor) -> Tensor:
    if any(layer.use_dora.get(each) for each in layer.active_adapters):
        raise ConfigError(f"only plain LoRA can be saved and served, got DoRA in {name}")
    # Added up in float32: adapters are kept in it, and a narrow base would round them away twice.
    merged = weight.float()
    for adapter in layer.active_adapters:
        merged = merged + layer.get_delta_weight(adapter).float()
    return merged.to(weight.dtype)


# --- sharded weights ------------------------------------------------------------------


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the full tensor of a shard; every process must call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def local_tensor(tensor: Tensor) -> Tensor:
    """Return this process's part of a tensor, in the same memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def is_sharded(module: nn.Module) -> bool:
    """Whether the weights of ``module`` are sharded over processes (``DTensor``)."""
    return any(isinstance(parameter, DTensor) for parameter in module.parameters())


def storage_id(tensor: Tensor) -> int:
    """Return a number that all names of one weight share."""
    return id(tensor) if isinstance(tensor, DTensor) else tensor.data_ptr()
