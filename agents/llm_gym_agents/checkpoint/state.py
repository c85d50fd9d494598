"""``TrainerState``, and how it becomes a folder.

A checkpoint holds ``model/`` in Hugging Face format, ``trainer.safetensors`` and
``trainer.json`` with everything else, and ``manifest.json`` with sizes and hashes. Nothing in it
is pickled, so loading one runs no code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from llm_gym_agents.checkpoint.folder import new_folder, verified
from llm_gym_agents.checkpoint.lm import load_lm, save_lm
from llm_gym_agents.checkpoint.part import CheckpointError, Part, as_json
from llm_gym_agents.checkpoint.shards import Like, read_shards

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODEL = "model"
TENSORS = "trainer.safetensors"
SHARDS = "trainer"
"""Instead of that file, where tensors were spread over processes: a file of each process."""
VALUES = "trainer.json"
ADAPTERS = "adapters"


@dataclass(kw_only=True)
class TrainerState:
    """What a run needs to go on, besides its language model."""

    iteration: int
    """Iterations that are done."""
    config: dict[str, Any] = field(default_factory=dict)
    """``ConfigStore.to_dict()``."""
    parts: dict[str, Part] = field(default_factory=dict)
    """The state of each component, under a name without a slash."""
    success: float | None = None
    """Held-out success of this very model; None if it was not evaluated."""
    success_low: float | None = None
    """Lower end of its 95 % interval."""
    folder: Path | None = None
    """Where it was loaded from."""


def save_checkpoint(
    folder: str | Path, state: TrainerState, *, lm: PreTrainedModel, tokenizer: Any = None
) -> Path:
    """Write a checkpoint that is there whole or not at all; one in its place is replaced.

    Raises ``CheckpointError`` where it cannot be written or something else is in its place.
    """
    place = Path(folder)
    parts = dict(state.parts)
    _check_names(parts)
    with new_folder(place) as new:
        adapters = save_lm(new / MODEL, lm, tokenizer)
        if adapters is not None:
            parts[ADAPTERS] = adapters
        save_file(_apart(named_tensors(parts)), new / TENSORS)
        write_values(new, state, parts)
    return place


def named_tensors(parts: Mapping[str, Part]) -> dict[str, Tensor]:
    """Return the tensors of all parts, under the names that files have for them."""
    return {
        f"{name}/{key}": tensor
        for name, part in parts.items()
        for key, tensor in part.tensors.items()
    }


def write_values(folder: Path, state: TrainerState, parts: Mapping[str, Part]) -> None:
    """Write what is not a tensor."""
    values = {
        "iteration": state.iteration,
        "success": state.success,
        "success_low": state.success_low,
        "config": as_json(state.config, "config"),
        "parts": {name: as_json(part.values, name) for name, part in parts.items()},
    }
    (folder / VALUES).write_text(json.dumps(values, indent=1) + "\n", "utf-8")


def load_checkpoint(folder: str | Path, like: Like | None = None) -> TrainerState:
    """Return the state in ``folder``; refuses, in one sentence, what is not a whole checkpoint.

    ``like`` says which tensors are spread over processes; of those each reads its own part.
    """
    found = verified(Path(folder))
    values = json.loads((found / VALUES).read_text("utf-8"))
    parts = {name: Part(values=each) for name, each in values["parts"].items()}
    for full_name, tensor in _read_tensors(found, like).items():
        name, _, key = full_name.partition("/")
        parts[name].tensors[key] = tensor
    return TrainerState(
        iteration=values["iteration"],
        config=values["config"],
        parts=parts,
        success=values["success"],
        success_low=values.get("success_low"),
        folder=found,
    )


def _read_tensors(folder: Path, like: Like | None) -> dict[str, Tensor]:
    if (folder / SHARDS).is_dir():
        return read_shards(folder / SHARDS, like or (lambda name: None))
    return load_file(folder / TENSORS) if like is None else read_shards(folder, like)


def model_folder(state: TrainerState) -> Path:
    """Return the Hugging Face folder of a loaded checkpoint."""
    if state.folder is None:
        raise CheckpointError("a state that was not loaded has no model folder")
    return state.folder / MODEL


def restore_lm(lm: PreTrainedModel, state: TrainerState) -> None:
    """Copy the language model of a loaded checkpoint into ``lm``, in place."""
    load_lm(lm, model_folder(state), state.parts.get(ADAPTERS))


def _check_names(parts: dict[str, Part]) -> None:
    for name in parts:
        if "/" in name or not name or name == ADAPTERS:
            raise CheckpointError(
                f"the name of a part must not be empty, hold a slash or be {ADAPTERS!r}, "
                f"got {name!r}"
            )


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors that share no memory, which safetensors would refuse."""
    apart: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        alone = tensor.detach().cpu().contiguous()
        if alone.untyped_storage().data_ptr() in seen:
            alone = alone.clone()
        seen.add(alone.untyped_storage().data_ptr())
        apart[name] = alone
    return apart
