"""The running batch: replies join it, grow by a token a step, and leave it.

Read ``step`` first, then ``join``. A row of the batch is a slot of the cache. Rows that finish stay
as holes, computed and ignored, until a quarter of the batch is holes; then the last rows move into
them. The cache of a finished slot is kept for prompts with the same prefix.

One uniform number decides one token, by inverting the cumulative distribution over ids. So a row's
token depends only on its own logits, settings and number. Number ``i`` of a seed is a function of
both (``uniforms``).

Shapes: B rows (slots 0 to B), N joining rows or seeds, V vocabulary, C hidden channels, K uniform
numbers per row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from llm_gym_agents.engines.base import EngineError, Sampling
from llm_gym_agents.engines.replies import Row
from llm_gym_agents.engines.transformers.causal import CausalModel
from llm_gym_agents.engines.transformers.prefill import Prefill
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

    def __len__(self) -> int:
        return len(self._rows)

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
        if finished and 4 * len(self._rows) < 3 * size:  # a quarter are holes
            self._shape = None
        elif finished:  # they stand still from now on
            shape.live_B1[[slot for slot in range(size) if slot not in self._rows]] = 0
        return finished

    def cancel(self) -> list[Row]:
        dropped = list(self._rows.values())
        for slot, row in self._rows.items():
            self.pool.give(slot, row.prompt)
        self._rows.clear()
        self._shape = None
        return dropped

    def forget(self) -> None:
        """Forget what slots hold, and give their memory back. No row may be running."""
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

    def _arrange(self) -> _Shape:
        """Move rows together where there are many holes, and describe the batch."""
        count = len(self._rows)
        if 4 * count < 3 * (max(self._rows) + 1):
            holes = [slot for slot in range(count) if slot not in self._rows]
            movers = [slot for slot in self._rows if slot >= count]
            self.cache.copy(holes + movers, movers + holes, self.cache.length)
            for hole, mover in zip(holes, movers, strict=True):
                self._rows[hole] = self._rows.pop(mover)
                self.pool.trade(hole, mover)
        rows = [self._rows.get(slot) for slot in range(max(self._rows) + 1)]
        # A hole writes too: behind what it holds.
        positions = [
            [len(self.pool.ids[slot]) if row is None else row.cached]
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

    def _settings(self, rows: Sequence[Row | None], count: int) -> RowSettings:
        numbers = uniforms(
            [row.request.seed if row else 0 for row in rows],
            [len(row.ids) if row else 0 for row in rows],
            count,
        )
        kinds = [row.request.sampling if row else _HOLE for row in rows]
        return RowSettings.of(kinds, numbers, self.model.device)


def _finite(log_probs: list[float]) -> list[float]:
    if not all(map(math.isfinite, log_probs)):
        raise EngineError(
            "the model's logits are not finite: its weights have diverged, or were never loaded"
        )
    return log_probs


@dataclass(frozen=True, slots=True)
class RowSettings:
    """The settings of a batch, a tensor each; None where no row asks for it."""

    temperature_B1: Tensor | None
    greedy_B: Tensor | None
    top_p_B1: Tensor | None
    uniform_BK: Tensor

    @classmethod
    def of(
        cls, rows: Sequence[Sampling], uniform_BK: npt.NDArray[Any], device: torch.device
    ) -> RowSettings:

        def column(values: list[float], neutral: float) -> Tensor | None:
            if all(value == neutral for value in values):
                return None
            return torch.tensor(values, dtype=torch.float32, device=device).unsqueeze(1)

        greedy = [row.temperature == 0 for row in rows]
        return cls(
            column([row.temperature or 1.0 for row in rows], 1.0),
            torch.tensor(greedy, device=device) if any(greedy) else None,
            # Rounding may bring the sum to 1 before the last token: a row without a limit has none.
            column([row.top_p if row.top_p < 1 else 2.0 for row in rows], 2.0),
            torch.from_numpy(uniform_BK).to(device),
        )


def sample(logits_BV: Tensor, settings: RowSettings, step: int) -> tuple[Tensor, Tensor]:
    """Return the token of each row and its log-prob; ``step`` says which uniform number to use.

    Log-probs are those of ``base.Sampling``: tempered, over the whole vocabulary. Where logits
    are not numbers, neither is the log-prob.
    """
    logits_BV = logits_BV.float()
    if settings.temperature_B1 is not None:
        logits_BV = logits_BV / settings.temperature_B1
    log_probs_BV = logits_BV.log_softmax(-1)
    probs_BV = log_probs_BV.exp()
    if settings.top_p_B1 is not None:
        # Stable: of equally likely tokens the one with the lower id comes first, on every device.
        sorted_BV, order_BV = probs_BV.sort(stable=True, dim=-1, descending=True)
        drop_BV = sorted_BV.cumsum(-1, dtype=torch.float64) - sorted_BV >= settings.top_p_B1
        drop_BV = torch.zeros_like(drop_BV).scatter(1, order_BV, drop_BV)
        probs_BV = probs_BV.masked_fill(drop_BV, 0.0)
    # In float64 the sum of a large vocabulary is not yet blurred by rounding.
    sums_BV = probs_BV.cumsum(-1, dtype=torch.float64)
    target_B1 = settings.uniform_BK[:, step, None] * sums_BV[:, -1:]
    # The first sum *above* the target, so a token of probability 0 is never taken.
    token_B1 = torch.searchsorted(sums_BV, target_B1, right=True)
    token_B1.clamp_(max=probs_BV.shape[1] - 1)
    if settings.greedy_B is not None:
        best_B1 = logits_BV.argmax(-1, keepdim=True)
        token_B1 = torch.where(settings.greedy_B.unsqueeze(1), best_B1, token_B1)
    return token_B1.squeeze(1), log_probs_BV.gather(1, token_B1).squeeze(1)


Words = npt.NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_ROUNDS = 10
_SEED_MASK = 2**64 - 1


def uniforms(seeds: Sequence[int], starts: Sequence[int], count: int) -> npt.NDArray[np.float64]:
    """Return ``[N, K]``: for each seed its numbers ``start`` to ``start + count``, in [0, 1).

    Philox4x32-10 (Salmon et al., 2011) on numpy arrays.

    >>> first = uniforms([7, 8], [0, 0], 4)
    >>> bool((uniforms([8], [2], 2) == first[1:, 2:]).all())
    True
    """
    seeds_N: Words = np.array([seed & _SEED_MASK for seed in seeds], dtype=np.uint64)
    starts_N: Words = np.array(starts, dtype=np.uint64)
    # A counter gives four words, hence two numbers of 53 bits: begin at an even one.
    pairs = count // 2 + 1
    ahead_P: Words = np.arange(pairs, dtype=np.uint64)
    pair_NP: Words = (starts_N >> np.uint64(1))[:, None] + ahead_P
    zero: Words = np.zeros_like(pair_NP)
    words = philox(
        (pair_NP & _LOW, pair_NP >> _SHIFT, zero, zero),
        ((seeds_N & _LOW)[:, None], (seeds_N >> _SHIFT)[:, None]),
    )
    numbers = np.stack([_to_unit(*words[:2]), _to_unit(*words[2:])], axis=-1)
    flat_NK = numbers.reshape(len(seeds_N), 2 * pairs)
    if not (starts_N & np.uint64(1)).any():
        return flat_NK[:, :count]
    odd_N = (starts_N & np.uint64(1)).astype(np.intp)
    return np.take_along_axis(flat_NK, odd_N[:, None] + np.arange(count), axis=1)


def philox(counter: tuple[Words, ...], key: tuple[Words, ...]) -> tuple[Words, ...]:
    """Return four words of 32 bits for four words of counter and two of key, all in uint64."""
    a, b, c, d = counter
    low_key, high_key = key
    for _ in range(_ROUNDS):
        ab, cd = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (
            (cd >> _SHIFT) ^ b ^ low_key,
            cd & _LOW,
            (ab >> _SHIFT) ^ d ^ high_key,
            ab & _LOW,
        )
        low_key = (low_key + _STEPS[0]) & _LOW
        high_key = (high_key + _STEPS[1]) & _LOW
    return a, b, c, d


def _to_unit(high: Words, low: Words) -> npt.NDArray[np.float64]:
    return ((high >> np.uint64(5)) * 67108864.0 + (low >> np.uint64(6))) / 9007199254740992.0
