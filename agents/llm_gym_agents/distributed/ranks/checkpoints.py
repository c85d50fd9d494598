"""Checkpoints of a run over processes: one folder, which any number of processes can resume from.

Each process writes its shards (``checkpoint_weights``); the language model is also written as the
usual Hugging Face folder, gathered tensor by tensor. The main process makes and seals the folder,
so it is whole or absent. All processes must see the same disk.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.distributed.tensor import DTensor

from llm_gym_agents.learn.single_process import SingleProcess
from llm_gym_agents.run.checkpoint_folder import new_folder
from llm_gym_agents.run.checkpoint_weights import save_lm, write_shards
from llm_gym_agents.run.checkpoints import (
    ADAPTERS,
    MODEL,
    SHARDS,
    Checkpoints,
    TrainerState,
    named_tensors,
    save_checkpoint,
    write_values,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def save_sharded(
    folder: str | Path,
    state: TrainerState,
    *,
    lm: PreTrainedModel,
    tokenizer: Any = None,
    ranks: SingleProcess,
) -> Path:
    """Write a checkpoint; every process calls it and returns when the folder is in its place."""
    place = Path(folder)
    # Generators differ between processes; the main one's decide the batches.
    state.parts["rng"] = ranks.broadcast(state.parts.get("rng"))
    spread = any(isinstance(each, DTensor) for each in named_tensors(state.parts).values())
    if not spread:
        if ranks.is_main:
            save_checkpoint(place, state, lm=lm, tokenizer=tokenizer)
        ranks.barrier()
        return place
    with new_folder(place) if ranks.is_main else nullcontext() as made:
        new = Path(ranks.broadcast(str(made)))
        parts = dict(state.parts)
        adapters = save_lm(new / MODEL, lm, tokenizer, write=ranks.is_main)
        if adapters is not None:
            parts[ADAPTERS] = adapters
        write_shards(new / SHARDS, named_tensors(parts))
        if ranks.is_main:
            write_values(new, state, parts)
        ranks.barrier()
    ranks.barrier()
    return place


class RankCheckpoints(Checkpoints):
    """``Checkpoints`` in which only the main process removes or links folders."""

    def __init__(self, folder: str | Path, ranks: SingleProcess, **options: Any) -> None:
        super().__init__(folder, **options)
        self._ranks = ranks

    def save(self, state: TrainerState, *, lm: PreTrainedModel, tokenizer: Any = None) -> Path:
        self._ranks.barrier()  # everyone has listed the folder by now
        if self._ranks.is_main:
            place = super().save(state, lm=lm, tokenizer=tokenizer)
        else:
            place = self._write(self._place(state), state, lm=lm, tokenizer=tokenizer)
        self._ranks.barrier()
        return place

    def _write(self, place: Path, state: TrainerState, **model: Any) -> Path:
        return save_sharded(place, state, ranks=self._ranks, **model)

    def put_apart(self, source: Path, place: Path, card: str) -> None:
        if self._ranks.is_main:
            super().put_apart(source, place, card)
        self._ranks.barrier()

    def drop_after(self, iteration: int) -> None:
        if self._ranks.is_main:
            super().drop_after(iteration)
        self._ranks.barrier()
