"""Spreading a model's weights over processes with FSDP2: layer by layer, then what is left.

A layer is gathered when it is called and let go of after it, so that a process holds all of one
layer at a time. Embeddings, the head and the critic's own are the model's, and gathered for the
length of a pass. The model's ``forward`` is the only way in, which is where FSDP2 listens.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def shard(model: nn.Module, mesh: DeviceMesh, compute_dtype: torch.dtype) -> None:
    """Spread the weights of ``model`` over ``mesh``, in place.

    Weights and gradients are kept and added up in float32. Layers are gathered in
    ``compute_dtype``: half the bytes, and what autocast would make of them.
    """
    policy = MixedPrecisionPolicy()
    if compute_dtype != torch.float32:
        policy = MixedPrecisionPolicy(param_dtype=compute_dtype, reduce_dtype=torch.float32)
    # Nobody changes what a model returns in place, which is what it would warn about.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
    for layer in layers(model):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    # Let go of after each pass as well: what changes weights by hand must find the kept ones.
    fully_shard(model, mesh=mesh, reshard_after_forward=True)


def layers(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of every language model in ``model``: what transformers never splits."""
    names: set[str] = set()
    for module in model.modules():
        names |= set(getattr(module, "_no_split_modules", None) or ())
    yield from (module for module in model.modules() if type(module).__name__ in names)
