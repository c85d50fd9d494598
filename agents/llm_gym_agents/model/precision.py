"""What a model computes in, and what its trained weights are kept in.

Weights that are trained are float32, always: at a learning rate of 1e-6 bfloat16 loses most of the
steps to rounding. On a GPU the arithmetic is bfloat16 (autocast), which is what its speed is made
of; on a CPU it is float32 throughout. Where float32 is asked for on a GPU, matrix products are
TF32: ten bits more than bfloat16, and still several times faster than full float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

_RATES = ("dropout", "attention_dropout", "attn_dropout", "activation_dropout", "hidden_dropout")


def compute_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """Return the type to compute in: what is asked for, or with ``auto`` what suits the device.

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
    """Compute in ``dtype`` within this block, whatever the weights are kept in."""
    if dtype == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype)


def uncached(device: torch.device) -> AbstractContextManager[Any]:
    """Within this block autocast forgets a weight that it has cast as soon as it was used.

    A trunk uses each of its weights once. Cast copies of all of them until the end of the pass
    would be half of the model again, where layers are checkpointed or only scored with.
    """
    if not torch.is_autocast_enabled(device.type):
        return nullcontext()
    dtype = torch.get_autocast_dtype(device.type)
    return torch.autocast(device.type, dtype, cache_enabled=False)


def allow_tf32(device: torch.device) -> None:
    """Let float32 matrix products on a GPU use TF32."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")


def keep_trained_in_float32(model: nn.Module) -> None:
    """Widen every weight that is trained, in place; frozen ones stay as they are."""
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype in (torch.bfloat16, torch.float16):
            parameter.data = parameter.data.float()


@contextmanager
def narrow_stream(trunk: Any) -> Iterator[None]:
    """Under autocast, carry hidden states from layer to layer in its type, as engines do.

    Embeddings are no matrix product, so autocast leaves them in float32, and every residual with
    them: twice the memory, and further from what the sampler computed.
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
        yield
    finally:
        handle.remove()


def without_dropout(model: nn.Module) -> None:
    """Switch dropout off for good: a policy is scored and trained as it plays.

    transformers recomputes activations only in a layer that is in training mode, so such layers
    stay in it, alone, and their own rates become 0.
    """
    model.eval()
    for module in model.modules():
        if getattr(module, "gradient_checkpointing", False):
            module.training = True
            for name in _RATES:
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)
