"""The weights of a language model and their precision.

Weights are served under plain Hugging Face names, with LoRA merged and shards gathered. Trainable
weights are always float32: at a learning rate of 1e-6, bfloat16 loses most steps to rounding. On a
GPU the arithmetic is bfloat16 (autocast); on a CPU it is float32. If float32 is chosen on a GPU,
matrix products use TF32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from llm_gym.core.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def served_weights(lm: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights as a serving engine knows them: Hugging Face names, adapters merged.

    Weights come one at a time, so that no second model is in memory. Sharded weights are gathered,
    so every process must iterate. A weight that two layers share comes once, under its first name.
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
    """Yield the items of ``_named``; a weight with several names comes once, under its first."""
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
    # The sum is in float32, the dtype of adapters: a narrow base would round twice.
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


_RATES = ("dropout", "attention_dropout", "attn_dropout", "activation_dropout", "hidden_dropout")


def compute_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """Return the dtype to compute in: ``wanted``, or with ``auto`` the best one for the device.

    >>> compute_dtype("auto", torch.device("cuda"))
    torch.bfloat16
    >>> compute_dtype("auto", torch.device("cpu"))
    torch.float32
    """
    if wanted != "auto":
        found: torch.dtype = getattr(torch, wanted)
        return found
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def computing_in(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[Any]:
    """Compute in ``dtype`` within this block, whatever the dtype of the weights."""
    if dtype == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype)


def keep_trained_in_float32(model: nn.Module) -> None:
    """Convert trainable weights to float32, in place."""
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype in (torch.bfloat16, torch.float16):
            parameter.data = parameter.data.float()


@contextmanager
def narrow_stream(trunk: Any) -> Iterator[None]:
    """Under autocast, keep the residual stream in autocast's dtype, as engines do.

    Autocast leaves embeddings in float32, and with them every residual: twice the memory, and
    further from what the sampler computed. Its weight cache is off, too: a trunk uses each weight
    once, and cached casts of all of them would take half of the model's memory again.
    """
    embedding = trunk.get_input_embeddings()
    device = embedding.weight.device.type
    if not torch.is_autocast_enabled(device):
        yield
        return
    dtype = torch.get_autocast_dtype(device)

    def narrow(module: nn.Module, args: Any, out: Tensor) -> Tensor:
        return out.to(dtype)

    handle = embedding.register_forward_hook(narrow)
    try:
        with torch.autocast(device, dtype, cache_enabled=False):
            yield
    finally:
        handle.remove()


def without_dropout(model: nn.Module) -> None:
    """Switch dropout off: a policy is trained as it plays.

    transformers checkpoints gradients only in layers in training mode, so those stay in it with a
    rate of 0.
    """
    model.eval()
    for module in model.modules():
        if getattr(module, "gradient_checkpointing", False):
            module.training = True
            for name in _RATES:
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)
