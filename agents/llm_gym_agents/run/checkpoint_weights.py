"""The weights of a checkpoint: a Hugging Face folder that any tool can load, and shards.

With LoRA the folder holds the *merged* model and, separately, the adapters, because merging rounds
and cannot be undone exactly. The base model is not saved, because ``model.model_name`` names it; a
fingerprint detects a different one.

Tensors that are sharded over processes are written with ``torch.distributed.checkpoint`` in its
safetensors format: every process writes what it holds, and any number of processes can read it.
Nothing is pickled. That library takes a quarter of a second to import, so it is imported late.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from llm_gym_agents.model.load import no_progress_bars
from llm_gym_agents.model.weights import (
    adapted_layers,
    full_tensor,
    is_sharded,
    merged_weights,
    plain_lm,
)
from llm_gym_agents.run.state import CheckpointError, Part, set_module_state
from llm_gym_agents.text.chat import plain_template

if TYPE_CHECKING:
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ADAPTER = "adapter"
"""The LoRA adapter, in the folder of the merged model."""
_SAMPLE = 256


def save_lm(
    folder: Path, lm: PreTrainedModel, tokenizer: Any = None, *, write: bool = True
) -> Part | None:
    """Write ``lm`` and its tokenizer to ``folder``; return its adapters, if it has any.

    If the weights are sharded, every process calls it, and one of them writes.
    """
    plain = plain_lm(lm)
    layers = adapted_layers(plain)
    gathers = layers or is_sharded(plain)
    state = merged_weights(plain, layers, keep=write) if gathers else None
    adapters = _adapters(plain) if layers else None
    whole = {name: full_tensor(each) for name, each in adapters.tensors.items()} if adapters else {}
    if write:
        with no_progress_bars(), _as_plain(plain):
            plain.save_pretrained(folder, state_dict=state)
            if tokenizer is not None:
                _save_tokenizer(tokenizer, folder)
        if whole:
            _save_adapter(folder / ADAPTER, plain, whole)
    return adapters


def _save_adapter(folder: Path, plain: Any, tensors: Mapping[str, Tensor]) -> None:
    """Write the adapter as PEFT loads it: ``PeftModel.from_pretrained(base, folder)``."""
    settings = copy.copy(plain.peft_config["default"])
    settings.base_model_name_or_path = plain.config._name_or_path or None
    settings.save_pretrained(folder)
    named = {
        f"base_model.model.{name.replace('.default.', '.')}": tensors[name] for name in tensors
    }
    kept = {name: each.detach().cpu().contiguous() for name, each in named.items()}
    save_file(kept, folder / "adapter_model.safetensors")


def _save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write ``tokenizer``, with the plain transcript as its chat template if it has none."""
    own = tokenizer.chat_template
    try:
        tokenizer.chat_template = own or plain_template(tokenizer)
        tokenizer.save_pretrained(folder)
    finally:
        tokenizer.chat_template = own


def load_lm(lm: PreTrainedModel, folder: Path, adapters: Part | None = None) -> None:
    """Copy the weights in ``folder``, or the ``adapters`` of a checkpoint, into ``lm`` in place."""
    plain = plain_lm(lm)
    has_adapters = bool(adapted_layers(plain))
    if has_adapters != (adapters is not None):
        have, want = ("", "none") if adapters is not None else ("no ", "some")
        raise CheckpointError(
            f"the checkpoint has {have}LoRA adapters, got a model with {want}; "
            "model.lora_rank must be as it was when the checkpoint was written"
        )
    if adapters is not None:
        _set_adapters(plain, adapters)
        return
    if is_sharded(plain):
        read_into(plain, folder)
        return
    with no_progress_bars():
        fresh = type(lm).from_pretrained(folder, dtype=lm.dtype, local_files_only=True)
    set_module_state(lm, Part(tensors=fresh.state_dict()))


# --- LoRA ----------------------------------------------------------------------------------


def _adapters(plain: nn.Module) -> Part:
    state = plain.state_dict()
    tensors = {name: tensor for name, tensor in state.items() if ".lora_" in name}
    return Part(tensors=tensors, values={"base": _fingerprint(state)})


def _set_adapters(plain: nn.Module, adapters: Part) -> None:
    state = plain.state_dict()
    if adapters.values["base"] != _fingerprint(state):
        raise CheckpointError(
            "the adapters of the checkpoint must go onto the model they were trained on, got "
            "another one; model.model_name must be as it was"
        )
    base = tuple(name for name in state if ".lora_" not in name)
    set_module_state(plain, adapters, skip=base)


def _fingerprint(state: dict[str, Tensor]) -> str:
    """Return a digest of the base: names, shapes and a sample of each weight."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in state.items():
        if ".lora_" not in name:
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            flat = full_tensor(tensor.detach()).flatten()
            step = max(1, flat.numel() // _SAMPLE)
            digest.update(flat[::step].float().cpu().numpy().tobytes())
    return digest.hexdigest()


@contextmanager
def _as_plain(plain: Any) -> Iterator[None]:
    """Let transformers save a whole model although adapters were injected into it.

    Also in a process that is not the first of its group; by default only the first one writes.
    """
    injected = getattr(plain, "_hf_peft_config_loaded", False)
    if injected:
        plain._hf_peft_config_loaded = False
    plain.should_save_on_this_rank = lambda is_main_process=True: True
    try:
        yield
    finally:
        del plain.should_save_on_this_rank
        if injected:
            plain._hf_peft_config_loaded = True


Like = Callable[[str], Tensor | None]
"""Returns the tensor into which a checkpoint's tensor is copied, or None."""


def write_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write ``tensors``; every process of the group must call it with the same names."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    writer = HuggingFaceStorageWriter(path=str(folder), save_distributed=True)
    with _quiet():
        save(dict(tensors), storage_writer=writer, no_dist=not dist.is_initialized())


def read_shards(folder: Path, like: Like = lambda name: None) -> dict[str, Tensor]:
    """Return every tensor in the safetensors files of ``folder``.

    Of a tensor that is sharded in ``like``, only this process's part is read. Every process of a
    group must call it.
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
    """Copy the weights in ``folder`` into the sharded weights of ``module``, in place."""
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
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="torch.distributed")
        yield
