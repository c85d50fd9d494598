"""Checkpoints of a run over processes: one folder, which any number of processes can go on from.

Weights that are spread are written by the processes that hold them (``checkpoint.shards``), and the
language model besides as the usual Hugging Face folder, brought together tensor by tensor. The
leading process makes, seals and places the folder, so it is whole or absent as usual. All processes
must see the same disk.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.distributed.tensor import DTensor

from llm_gym_agents.checkpoint import Checkpoints, TrainerState, save_checkpoint, save_lm
from llm_gym_agents.checkpoint.checkpoints import (
    ADAPTERS,
    MODEL,
    SHARDS,
    named_tensors,
    write_values,
)
from llm_gym_agents.checkpoint.folder import new_folder
from llm_gym_agents.checkpoint.weights import write_shards
from llm_gym_agents.distributed.ranks import Ranks

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def save_over_ranks(
    folder: str | Path,
    state: TrainerState,
    *,
    lm: PreTrainedModel,
    tokenizer: Any = None,
    ranks: Ranks,
) -> Path:
    """Write a checkpoint; every process calls it, and returns when it is in its place."""
    place = Path(folder)
    # Generators differ between processes, and the leading one's deal the batches.
    state.parts["rng"] = ranks.broadcast(state.parts.get("rng"))
    spread = any(isinstance(each, DTensor) for each in named_tensors(state.parts).values())
    if not spread:
        if ranks.is_main:
            save_checkpoint(place, state, lm=lm, tokenizer=tokenizer)
        ranks.wait()
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
        ranks.wait()
    ranks.wait()
    return place


class RankCheckpoints(Checkpoints):
    """``Checkpoints`` of which the leading process alone keeps order.

    Args:
        folder: Where they lie, the same for all processes.
        ranks: The processes.
        **how: As in ``Checkpoints``.
    """

    def __init__(self, folder: str | Path, ranks: Ranks, **how: Any) -> None:
        super().__init__(folder, **how)
        self._ranks = ranks

    def save(self, state: TrainerState, *, lm: PreTrainedModel, tokenizer: Any = None) -> Path:
        """Write a checkpoint of ``state.iteration``; every process calls it."""
        self._ranks.wait()  # everybody has looked at what is there by now
        if self._ranks.is_main:
            place = super().save(state, lm=lm, tokenizer=tokenizer)
        else:
            place = self._write(self._place(state), state, lm=lm, tokenizer=tokenizer)
        self._ranks.wait()
        return place

    def _write(self, place: Path, state: TrainerState, **model: Any) -> Path:
        return save_over_ranks(place, state, ranks=self._ranks, **model)

    def put_apart(self, source: Path, place: Path) -> None:
        """Put a checkpoint apart, and return when it is there."""
        if self._ranks.is_main:
            super().put_apart(source, place)
        self._ranks.wait()

    def drop_after(self, iteration: int) -> None:
        """Remove checkpoints later than ``iteration``."""
        if self._ranks.is_main:
            super().drop_after(iteration)
        self._ranks.wait()
