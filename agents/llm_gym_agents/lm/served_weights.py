"""The weights of a language model as others know them: plain Hugging Face names, LoRA merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from llm_gym.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def served_weights(lm: PreTrainedModel) -> list[tuple[str, Tensor]]:
    """Return the weights as a serving engine knows them: Hugging Face names, adapters merged.

    A weight that two layers share is there once, under its first name.
    """
    plain = plain_lm(lm)
    layers = adapted_layers(plain)
    named = list(merged_weights(plain, layers).items() if layers else plain.named_parameters())
    first = {tensor.data_ptr(): name for name, tensor in reversed(named)}
    return [(name, tensor.detach()) for name, tensor in named if first[tensor.data_ptr()] == name]


def plain_lm(lm: Any) -> Any:
    """Return the Hugging Face model inside peft's wrapper, if there is one around it."""
    return lm.get_base_model() if hasattr(lm, "get_base_model") else lm


def adapted_layers(plain: nn.Module) -> dict[str, Any]:
    """Return the layers that have adapters, by name."""
    return {name: m for name, m in plain.named_modules() if hasattr(m, "get_delta_weight")}


@torch.no_grad()
def merged_weights(plain: nn.Module, layers: dict[str, Any]) -> dict[str, Tensor]:
    """Return the weights with adapters added, named as if there had never been any."""
    merged = {}
    for name, tensor in plain.state_dict().items():
        if ".lora_" in name:
            continue
        owner, found, rest = name.rpartition(".base_layer.")
        if found and rest == "weight":
            layer = layers[owner]
            if any(layer.use_dora.get(each) for each in layer.active_adapters):
                raise ConfigError(f"only plain LoRA can be saved and served, got DoRA in {owner}")
            for adapter in layer.active_adapters:
                tensor = tensor + layer.get_delta_weight(adapter).to(tensor.dtype)
        merged[f"{owner}.{rest}" if found else name] = tensor
    return merged
