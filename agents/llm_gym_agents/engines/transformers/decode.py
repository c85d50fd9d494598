"""The running batch: replies join it, grow by a token a step, and leave it.

Read ``step`` first, then ``join``. A row of the batch is a slot of the cache. Rows that finish
stay behind as holes, computed and ignored, until a quarter of the batch is holes; then the last
rows move into them. What a finished slot holds is kept for prompts that go on from there.

Shapes: B rows (slots 0 to B), N joining rows, V vocabulary, C hidden channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from llm_gym_agents.engines.base import EngineError, Sampling
from llm_gym_agents.engines.replies import Row
from llm_gym_agents.engines.transformers.causal import CausalModel
from llm_gym_agents.engines.transformers.prefill import Prefill
from llm_gym_agents.engines.transformers.sampling import RowSettings, sample, uniforms
from llm_gym_agents.engines.transformers.slot_cache import ROUND, Batch, SlotCache, SlotPool

AHEAD = 16
"""Uniform numbers drawn at once for each row."""
_HOLE = Sampling()


@dataclass(slots=True)
class _Shape:
    """The batch as tensors; good until rows join or move, or the uniform numbers run out."""

    slot_B: Tensor
    token_B1: Tensor
    position_B1: Tensor
    live_B1: Tensor
    """1 for a row, 0 for a hole, whose position stands still."""
    settings: RowSettings
    longest: int
    """The highest position of a row."""
    column: int = 0


class Decoder:
    """The running batch of one model."""

    def __init__(self, model: CausalModel, max_rows: int, prefix_cache: bool) -> None:
        self.model = model
        self.cache = SlotCache(model.layers, max_rows)
        self.pool = SlotPool(max_rows, prefix_cache)
        self._rows: dict[int, Row] = {}
        self._shape: _Shape | None = None
        self._kind = (model.device, model.dtype)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def room(self) -> int:
        return self.pool.free

    def join(self, rows: Sequence[Row]) -> list[Row]:
        """Read the prompts of ``rows``, sample a first token each, return those that finished.

        If this raises, none of them has joined.
        """
        work = Prefill(self.model, self.cache, self.pool)
        slots = work.assign([row.prompt for row in rows])
        try:
            reach = max(len(row.prompt) + min(row.limit, ROUND) for row in rows)
            self.cache.reserve(max(slots) + 1, reach)
            token_N, log_prob_N = sample(work.read(), self._settings(rows, 1), 0)
            tokens, log_probs = token_N.tolist(), _finite(log_prob_N.tolist())
        except BaseException:
            for slot in slots:
                self.pool.give(slot, [])
            raise
        self._shape = None
        for slot, row in zip(slots, rows, strict=True):
            self._rows[slot] = row
            self.pool.note(slot, row.prompt)
        return self._take(zip(slots, tokens, log_probs, strict=True))

    def step(self) -> list[Row]:
        """Sample a token for every row; return the rows that finished with it."""
        shape = self._shape
        if shape is None or shape.column == AHEAD:
            self._shape = shape = self._arrange()
        length = -(-(shape.longest + 1) // ROUND) * ROUND
        size = len(shape.slot_B)
        self.cache.reserve(size, length)
        self.cache.plan = Batch(shape.slot_B, slice(0, size), shape.position_B1, length)
        mask = self.model.mask(shape.position_B1, length)
        hidden_B1C = self.model.hidden(shape.token_B1, self.cache, shape.position_B1, mask)
        logits_BV = self.model.logits(hidden_B1C[:, 0])
        token_B, log_prob_B = sample(logits_BV, shape.settings, shape.column)
        tokens, log_probs = token_B.tolist(), _finite(log_prob_B.tolist())
        shape.token_B1 = token_B.unsqueeze(1)
        shape.position_B1 = shape.position_B1 + shape.live_B1
        shape.longest += 1
        shape.column += 1
        slots = list(self._rows)
        finished = self._take([(slot, tokens[slot], log_probs[slot]) for slot in slots])
        if finished:
            self._leave_holes(shape)
        return finished

    def cancel(self) -> list[Row]:
        dropped = list(self._rows.values())
        for slot, row in self._rows.items():
            self.pool.give(slot, row.prompt)
        self._rows.clear()
        self._shape = None
        return dropped

    def forget(self) -> None:
        """Forget what slots hold: the weights have changed, or moved."""
        self.pool.forget()
        kind = (self.model.device, self.model.dtype)
        if kind == self._kind:
            self.cache.wipe()
        else:
            self.cache.free()
            self._kind = kind

    def free(self) -> None:
        """Give the cache's memory back. No row may be running."""
        self.pool.forget()
        self.cache.free()

    def _take(self, sampled: Iterable[tuple[int, int, float]]) -> list[Row]:
        finished = []
        for slot, token, log_prob in sampled:
            row = self._rows[slot]
            if row.take(token, log_prob):
                finished.append(row)
                del self._rows[slot]
                self.pool.give(slot, [*row.prompt, *row.ids[:-1]])
        return finished

    # --- the shape of the batch ----------------------------------------------------------

    def _leave_holes(self, shape: _Shape) -> None:
        """Let finished rows stand still, or have the batch arranged anew."""
        size = len(shape.slot_B)
        if _sparse(len(self._rows), size):
            self._shape = None
        else:
            shape.live_B1[[slot for slot in range(size) if slot not in self._rows]] = 0

    def _arrange(self) -> _Shape:
        """Move rows together where there are many holes, and describe the batch."""
        if _sparse(len(self._rows), max(self._rows) + 1):
            self._compact()
        rows = [self._rows.get(slot) for slot in range(max(self._rows) + 1)]
        # A hole writes too: behind what it holds.
        positions = [
            [len(self.pool.ids(slot)) if row is None else row.cached]
            for slot, row in enumerate(rows)
        ]
        self.cache.reserve(len(rows), max(positions)[0] + 1)
        device = self.model.device
        return _Shape(
            slot_B=torch.arange(len(rows), device=device),
            token_B1=torch.tensor([[row.ids[-1] if row else 0] for row in rows], device=device),
            position_B1=torch.tensor(positions, device=device),
            live_B1=torch.tensor([[int(row is not None)] for row in rows], device=device),
            settings=self._settings(rows, AHEAD),
            longest=max(row.cached for row in self._rows.values()),
        )

    def _compact(self) -> None:
        count = len(self._rows)
        holes = [slot for slot in range(count) if slot not in self._rows]
        movers = [slot for slot in self._rows if slot >= count]
        self.cache.swap(holes, movers)
        for hole, mover in zip(holes, movers, strict=True):
            self._rows[hole] = self._rows.pop(mover)
            self.pool.trade(hole, mover)

    def _settings(self, rows: Sequence[Row | None], count: int) -> RowSettings:
        numbers = uniforms(
            [row.request.seed if row else 0 for row in rows],
            [len(row.ids) if row else 0 for row in rows],
            count,
        )
        kinds = [row.request.sampling if row else _HOLE for row in rows]
        return RowSettings.of(kinds, numbers, self.model.device)


def _sparse(rows: int, size: int) -> bool:
    return 4 * rows < 3 * size


def _finite(log_probs: list[float]) -> list[float]:
    if not all(map(math.isfinite, log_probs)):
        raise EngineError(
            "the model's logits are not finite: its weights have diverged, or were never loaded"
        )
    return log_probs
