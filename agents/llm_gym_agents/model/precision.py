"""The precision of computation and of trained weights.

Weights that are trained are float32, always: at a learning rate of 1e-6 bfloat16 loses most of the
steps to rounding. On a GPU the arithmetic is bfloat16 (autocast), which is what its speed is made
of; on a CPU it is float32 throughout. Where float32 is asked for on a GPU, matrix products are
TF32: ten bits more than bfloat16, and still several times faster than full float32.
"""

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
    """Compute in ``dtype`` within this block, whatever the dtype of the weights."""
    if dtype == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype)


def uncached(device: torch.device) -> AbstractContextManager[Any]:
    """Switch autocast's weight cache off within this block.

    A trunk uses each weight once. Cached casts of all of them would take half of the model's memory
    again.
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
    """Convert trainable weights to float32, in place."""
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype in (torch.bfloat16, torch.float16):
            parameter.data = parameter.data.float()


@contextmanager
def narrow_stream(trunk: Any) -> Iterator[None]:
    """Under autocast, keep the residual stream in autocast's dtype, as engines do.

    Autocast leaves embeddings in float32, and with them every residual: twice the memory, and
    further from what the sampler computed.
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
