"""Tensors that are spread over processes, as files that any number of processes can read.

This is ``torch.distributed.checkpoint`` with its safetensors format: every process writes what it
holds, side by side, and every process reads what it needs of it, however many wrote it. Unlike the
usual format of that library it pickles nothing, and an ordinary safetensors file reads the same.
It takes a quarter of a second to import, and few runs are spread: that is done when it is needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from llm_gym_agents.checkpoint.part import CheckpointError

if TYPE_CHECKING:
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

Like = Callable[[str], Tensor | None]
"""Gives the tensor that the one of this name will be copied into, or None for any."""


def write_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write ``tensors``; every process of the group has to call it with the same names."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    writer = HuggingFaceStorageWriter(path=str(folder), save_distributed=True)
    with _quiet():
        save(dict(tensors), storage_writer=writer, no_dist=not dist.is_initialized())


def read_shards(folder: Path, like: Like = lambda name: None) -> dict[str, Tensor]:
    """Return every tensor in the safetensors files of ``folder``.

    Of one that is spread here, as ``like`` says, only the part of this process is read. Where
    processes form a group, all of them have to call it.
    """
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    reader = _reader(folder)
    found: dict[str, Tensor] = {}
    for name, stored in reader.read_metadata().state_dict_metadata.items():
        assert isinstance(stored, TensorStorageMetadata)
        target, dtype = like(name), stored.properties.dtype
        if isinstance(target, DTensor) and target.shape == stored.size:
            found[name] = torch.empty_like(target, dtype=dtype)
        else:
            found[name] = torch.empty(stored.size, dtype=dtype)
    _read(found, reader)
    return found


@torch.no_grad()
def read_into(module: nn.Module, folder: Path) -> None:
    """Copy the weights in ``folder`` into ``module``, whose weights are spread, in place."""
    reader = _reader(folder)
    stored = reader.read_metadata().state_dict_metadata
    own = dict(module.named_parameters()) | dict(module.named_buffers())
    kept = module.state_dict().keys()
    missing = [name for name in own if name in kept and name not in stored]
    if missing:
        raise CheckpointError(
            f"the model must have the weights of the checkpoint, got none for {missing[0]!r} in "
            f"{folder}; was it built with other settings?"
        )
    _read({name: own[name].detach() for name in own if name in stored}, reader)


def _reader(folder: Path) -> HuggingFaceStorageReader:
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    return HuggingFaceStorageReader(str(folder))


def _read(tensors: dict[str, Tensor], reader: HuggingFaceStorageReader) -> None:
    from torch.distributed.checkpoint.state_dict_loader import load

    with _quiet():
        load(dict(tensors), storage_reader=reader, no_dist=not dist.is_initialized())


@contextmanager
def _quiet() -> Iterator[None]:
    """No word about there being one process only."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="torch.distributed")
        yield
