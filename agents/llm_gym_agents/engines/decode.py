"""The running batch: replies join it, grow by a token a step, and leave it.

Read ``step`` first, then ``join``. A row of the batch is a slot of the cache. Rows that finish
stay behind as holes, computed and ignored, until a quarter of the batch is holes; then the last
rows move into them. What a finished slot holds is kept for prompts that go on from there.

Shapes: B rows (slots 0 to B), T tokens of a row, N joining rows, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from llm_gym_agents.engines.base import EngineError, Sampling
from llm_gym_agents.engines.causal import CausalModel
from llm_gym_agents.engines.prefill import Prefill
from llm_gym_agents.engines.prefixes import HeldPrefixes
from llm_gym_agents.engines.rows import Row
from llm_gym_agents.engines.sampling import RowSettings, sample
from llm_gym_agents.engines.slots import ROUND, Batch, SlotCache
from llm_gym_agents.engines.uniforms import uniforms

AHEAD = 16
"""Uniform numbers drawn at once for each row."""
_HOLE = Sampling()


class Decoder:
    """The running batch of one model.

    Args:
        model: What samples.
        max_rows: Most replies that run at once.
        prefix_cache: Whether finished slots serve prompts that begin alike.
    """

    def __init__(self, model: CausalModel, max_rows: int, prefix_cache: bool) -> None:
        self.model, self.max_rows, self.prefix_cache = model, max_rows, prefix_cache
        self.cache = SlotCache(model.layers)
        self.held = HeldPrefixes()
        self._rows: dict[int, Row] = {}
        self._idle: dict[int, None] = {}  # ordered: the slot that was idle longest comes first
        self._size = 0
        self._stale = True

    def __len__(self) -> int:
        return len(self._rows)

    # --- joining -------------------------------------------------------------------------

    def join(self, rows: Sequence[Row]) -> list[Row]:
        """Read the prompts of ``rows``, sample a first token each, return those that finished.

        Nothing has changed if this raises.
        """
        work = Prefill(self.model, self.cache, self.held if self.prefix_cache else None)
        idle = dict(self._idle)
        try:
            slots = work.assign([row.prompt for row in rows], idle, self.max_rows)
            reach = max(len(row.prompt) + min(row.limit, ROUND) for row in rows)
            self.cache.reserve(max(slots) + 1, reach)
            logits_NV = work.read()
        except BaseException:
            for slot in self._idle:  # whatever lay there may be half overwritten
                self.held.drop(slot)
            raise
        self._idle = idle
        token_N, log_prob_N = sample(logits_NV, self._settings(rows, 1), 0)
        self._rows.update(zip(slots, rows, strict=True))
        for slot, row in zip(slots, rows, strict=True):
            if self.prefix_cache:
                self.held.hold(slot, row.prompt)
        self._stale = True
        return self._take(slots, token_N.tolist(), log_prob_N.tolist())

    # --- decoding ------------------------------------------------------------------------

    def step(self) -> list[Row]:
        """Sample a token for every row; return the rows that finished with it."""
        if self._stale or self._column == AHEAD:
            self._arrange()
        length = -(-(self._longest + 1) // ROUND) * ROUND
        self.cache.reserve(self._size, length)
        self.cache.plan = Batch(
            self._slot_B, slice(0, self._size), self._position_B1, min(length, self.cache.length)
        )
        hidden_B1C = self.model.hidden(
            self._token_B1,
            self.cache,
            self._position_B1,
            self.model.mask(self._position_B1, self.cache.plan.length),
        )
        logits_BV = self.model.logits(hidden_B1C[:, 0])
        token_B, log_prob_B = sample(logits_BV, self._now, self._column)
        self._token_B1 = token_B.unsqueeze(1)
        self._position_B1 = self._position_B1 + self._live_B1
        self._longest += 1
        self._column += 1
        tokens, log_probs = token_B.tolist(), log_prob_B.tolist()
        slots = list(self._rows)
        finished = self._take(
            slots, [tokens[slot] for slot in slots], [log_probs[slot] for slot in slots]
        )
        if finished:
            self._leave_holes()
        return finished

    def _take(self, slots: list[int], tokens: list[int], log_probs: list[float]) -> list[Row]:
        if not all(map(math.isfinite, log_probs)):
            raise EngineError(
                "the model's logits are not finite; its weights have diverged or are not loaded"
            )
        finished = []
        for slot, token, log_prob in zip(slots, tokens, log_probs, strict=True):
            row = self._rows[slot]
            if row.take(token, log_prob):
                finished.append(row)
                self._release(slot)
        return finished

    def _release(self, slot: int) -> None:
        row = self._rows.pop(slot)
        self._idle[slot] = None
        if self.prefix_cache:
            self.held.hold(slot, [*row.prompt, *row.ids[:-1]])

    def cancel(self) -> list[Row]:
        """Drop every row and return them."""
        dropped = list(self._rows.values())
        for slot in list(self._rows):
            row = self._rows.pop(slot)
            self._idle[slot] = None
            self.held.hold(slot, row.prompt if self.prefix_cache else [])
        self._stale = True
        return dropped

    def forget(self) -> None:
        """Forget what slots hold: the weights have changed."""
        self.held.clear()
        self.cache.wipe()

    def free(self) -> None:
        """Give the cache's memory back. No row may be running."""
        self.held.clear()
        self.cache.free()
        self._idle.clear()

    # --- the shape of the batch ----------------------------------------------------------

    def _leave_holes(self) -> None:
        """Let finished rows idle in place, or mark the batch for another arrangement."""
        if 4 * len(self._rows) < 3 * self._size:
            self._stale = True
            return
        holes = [slot for slot in range(self._size) if slot not in self._rows]
        self._live_B1[holes] = 0

    def _arrange(self) -> None:
        """Move rows together, and write down what a step needs to know of them."""
        count = len(self._rows)
        if 4 * count < 3 * (max(self._rows) + 1):
            self._compact(count)
        self._size = size = max(self._rows) + 1
        device = self.model.device
        rows = [self._rows.get(slot) for slot in range(size)]
        positions = [
            len(self.held[slot]) if row is None else row.cached for slot, row in enumerate(rows)
        ]
        self._longest = max(row.cached for row in self._rows.values())
        # A hole writes too, behind what it holds.
        self.cache.reserve(size, max(positions) + 1)
        self._slot_B = torch.arange(size, device=device)
        self._position_B1 = torch.tensor(positions, device=device).unsqueeze(1)
        last = [0 if row is None else row.ids[-1] for row in rows]
        self._token_B1 = torch.tensor(last, device=device).unsqueeze(1)
        live = [row is not None for row in rows]
        self._live_B1 = torch.tensor(live, dtype=torch.int64, device=device).unsqueeze(1)
        self._now = self._settings(rows, AHEAD)
        self._column = 0
        self._stale = False

    def _compact(self, count: int) -> None:
        holes = [slot for slot in range(count) if slot not in self._rows]
        movers = [slot for slot in self._rows if slot >= count]
        self.cache.swap(holes, movers)
        for hole, mover in zip(holes, movers, strict=True):
            self._rows[hole] = self._rows.pop(mover)
            del self._idle[hole]
            self._idle[mover] = None
            self.held.swap(hole, mover)

    def _settings(self, rows: Sequence[Row | None], count: int) -> RowSettings:
        numbers = uniforms(
            [0 if row is None else row.request.seed for row in rows],
            [0 if row is None else len(row.ids) for row in rows],
            count,
        )
        kinds = [_HOLE if row is None else row.request.sampling for row in rows]
        return RowSettings.of(kinds, numbers, self.model.device)
