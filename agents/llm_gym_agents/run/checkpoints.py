"""``TrainerState`` as a folder, and ``Checkpoints``: the folders of a run.

A checkpoint holds ``model/`` in Hugging Face format, ``trainer.safetensors`` and
``trainer.json`` with everything else, and ``manifest.json`` with sizes and hashes. Nothing in it
is pickled, so loading one runs no code. A run keeps the last few checkpoints and the best.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from llm_gym_agents.run.checkpoint_folder import MANIFEST, new_folder, remove, sweep, verified
from llm_gym_agents.run.checkpoint_weights import Like, load_lm, read_shards, save_lm
from llm_gym_agents.run.state import CheckpointError, Part, as_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODEL = "model"
TENSORS = "trainer.safetensors"
SHARDS = "trainer"
"""Replaces that file if tensors are sharded: one file per process."""
VALUES = "trainer.json"
_NAMES = frozenset({"iteration", "success", "success_low", "config", "parts"})
ADAPTERS = "adapters"


@dataclass(kw_only=True)
class TrainerState:
    """The state that a run resumes from, without its language model."""

    iteration: int
    """Number of finished iterations."""
    config: dict[str, Any] = field(default_factory=dict)
    """``ConfigStore.to_dict()``."""
    parts: dict[str, Part] = field(default_factory=dict)
    """The state of each component, under a name without a slash."""
    success: float | None = None
    """Held-out success of this model; None if it was not evaluated."""
    success_low: float | None = None
    """Lower end of its 95 % interval."""
    folder: Path | None = None
    """Where it was loaded from."""


def save_checkpoint(
    folder: str | Path, state: TrainerState, *, lm: PreTrainedModel, tokenizer: Any = None
) -> Path:
    """Write a checkpoint atomically; an existing one is replaced.

    Raises ``CheckpointError`` if it cannot be written or the path is not a checkpoint.
    """
    place = Path(folder)
    parts = dict(state.parts)
    with new_folder(place) as new:
        adapters = save_lm(new / MODEL, lm, tokenizer)
        if adapters is not None:
            parts[ADAPTERS] = adapters
        save_file(_apart(named_tensors(parts)), new / TENSORS)
        write_values(new, state, parts)
    return place


def named_tensors(parts: Mapping[str, Part]) -> dict[str, Tensor]:
    """Return the tensors of all parts, by their names in files."""
    return {
        f"{name}/{key}": tensor
        for name, part in parts.items()
        for key, tensor in part.tensors.items()
    }


def write_values(folder: Path, state: TrainerState, parts: Mapping[str, Part]) -> None:
    """Write all values that are not tensors."""
    values = {
        "iteration": state.iteration,
        "success": state.success,
        "success_low": state.success_low,
        "config": as_json(state.config, "config"),
        "parts": {name: as_json(part.values, name) for name, part in parts.items()},
    }
    (folder / VALUES).write_text(json.dumps(values, indent=1) + "\n", "utf-8")


def load_checkpoint(folder: str | Path, like: Like | None = None) -> TrainerState:
    """Return the state in ``folder``; raises ``CheckpointError`` if it is incomplete.

    ``like`` says which tensors are sharded; each process reads its own part of them.
    """
    found = verified(Path(folder))
    values = _read_values(found)
    parts = {name: Part(values=each) for name, each in values["parts"].items()}
    if (found / SHARDS).is_dir():
        tensors = read_shards(found / SHARDS, like or (lambda name: None))
    else:
        tensors = load_file(found / TENSORS) if like is None else read_shards(found, like)
    for full_name, tensor in tensors.items():
        name, _, key = full_name.partition("/")
        parts[name].tensors[key] = tensor
    return TrainerState(
        iteration=values["iteration"],
        config=values["config"],
        parts=parts,
        success=values["success"],
        success_low=values["success_low"],
        folder=found,
    )


def model_folder(state: TrainerState) -> Path:
    """Return the Hugging Face folder of a loaded checkpoint."""
    assert state.folder is not None, "it was not loaded"
    return state.folder / MODEL


def restore_lm(lm: PreTrainedModel, state: TrainerState) -> None:
    """Copy the language model of a loaded checkpoint into ``lm``, in place."""
    load_lm(lm, model_folder(state), state.parts.get(ADAPTERS))


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors without shared memory, which safetensors would refuse."""
    apart: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        alone = tensor.detach().cpu().contiguous()
        if alone.untyped_storage().data_ptr() in seen:
            alone = alone.clone()
        seen.add(alone.untyped_storage().data_ptr())
        apart[name] = alone
    return apart


class Checkpoints:
    """The checkpoints in one folder: ``iteration-000120``, ..., and ``best-000080``.

    The best checkpoint has its own folder with a new name each time, so a complete one always
    exists. Its files are hard links if the file system supports them.

    Args:
        folder: Where they are.
        keep_last_n: Newest checkpoints to keep.
        write: Writes one checkpoint to any folder, with the arguments of ``save_checkpoint``.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        keep_last_n: int = 3,
        write: Callable[..., Path] = save_checkpoint,
    ) -> None:
        self.folder, self.keep_last_n, self.write = Path(folder), keep_last_n, write

    def save(self, state: TrainerState, *, lm: PreTrainedModel, tokenizer: Any = None) -> Path:
        """Write a checkpoint of ``state.iteration``, and remove old ones."""
        for kind in ("iteration", "best"):
            sweep(self.folder, f"{kind}-*")
        place = self.write(self._place(state), state, lm=lm, tokenizer=tokenizer)
        best = self.best()
        if best is not None and best.name.startswith("iteration"):
            _link(best, self.folder / f"best-{number(best):06d}")
        for old in self._places("best")[:-1]:
            remove(old)
        for old in self._places("iteration")[: -self.keep_last_n]:
            remove(old)
        return place

    def _place(self, state: TrainerState) -> Path:
        return self.folder / f"iteration-{state.iteration:06d}"

    def latest(self) -> Path | None:
        return next(reversed(self._places("iteration")), None)

    def best(self) -> Path | None:
        """Return the checkpoint with the highest success (the earliest of equal ones), or None.

        Checkpoints are compared by the lower end of the success interval, so that a few lucky
        episodes do not win. All checkpoints are compared, because a run may be killed before its
        best one is copied.
        """
        places = [*self._places("best"), *self._places("iteration")]
        known = [(place, found) for place in places if (found := standing(place)) is not None]
        if not known:
            return None
        return max(known, key=lambda each: (each[1], -number(each[0])))[0]

    def is_best(self, success: float, low: float | None = None) -> bool:
        """Whether this success and its lower bound beat every saved model."""
        held = None if (best := self.best()) is None else standing(best)
        return held is None or rank(success, low) > held

    def put_apart(self, source: Path, place: Path, card: str) -> None:
        """Copy the model of the checkpoint ``source`` to ``place``, with its model card."""
        _link(source / MODEL, place, card)

    def drop_after(self, iteration: int) -> None:
        """Remove checkpoints after ``iteration``, because the run continues differently."""
        for kind in ("iteration", "best"):
            for place in self._places(kind):
                if number(place) > iteration:
                    remove(place)

    def _places(self, kind: str) -> list[Path]:
        found = [
            path
            for path in self.folder.glob(f"{kind}-*")
            if re.fullmatch(rf"{kind}-\d+", path.name) and (path / MANIFEST).is_file()
        ]
        return sorted(found, key=number)


def _read_values(folder: Path) -> dict[str, Any]:
    path = folder / VALUES
    try:
        values = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        numbers = {values[name] for name in ("success", "success_low")} - {None}
        if values.keys() >= _NAMES and all(isinstance(each, float | int) for each in numbers):
            return dict(values)
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        pass
    raise CheckpointError(f"{folder} is not a whole checkpoint: {VALUES} is broken")


def number(place: Path) -> int:
    """Return the iteration of a checkpoint."""
    return int(place.name.rpartition("-")[2])


def standing(place: Path) -> tuple[float, float] | None:
    """Return the sort key of a checkpoint's success; None if it was not evaluated.

    Also None for a damaged checkpoint; loading it raises an error.
    """
    try:
        values = _read_values(place)
    except CheckpointError:
        return None
    if values["success"] is None:
        return None
    return rank(values["success"], values["success_low"])


def rank(success: float, low: float | None) -> tuple[float, float]:
    """Return the sort key of models: lower end of the interval, then success."""
    return (success if low is None else low, success)


def _link(source: Path, place: Path, card: str = "") -> None:
    with new_folder(place) as new:
        shutil.copytree(source, new, copy_function=_hard_link, dirs_exist_ok=True)
        if card:
            (new / "README.md").write_text(card, "utf-8")


def _hard_link(source: str, target: str) -> str:
    if Path(source).name == MANIFEST:  # ``new_folder`` writes its own
        return target
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
