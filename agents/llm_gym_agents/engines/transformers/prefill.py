"""Reading prompts into slots, each common beginning only once.

``assign`` finds a slot for every prompt and what is known of it already; ``read`` reads the rest.
Equal prompts are read once and copied, and so is the common beginning of new prompts.

Fresh prompts without a common beginning are read packed on a CPU: one after another without
padding, with only the last state of each from the last layer (``read_packed``).

Shapes: B rows of a group, T tokens of a row, N prompts, V vocabulary, C hidden channels, S ids of
packed prompts, H heads, D of one head.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from llm_gym_agents.engines.transformers.causal import GROUP_TOKENS, CausalModel
from llm_gym_agents.engines.transformers.slot_cache import (
    ROUND,
    Batch,
    SlotCache,
    SlotPool,
    common_length,
)
from llm_gym_agents.model.last_layer import is_worth_it, last_layer_at
from llm_gym_agents.model.packed_attention import Packing, packed

MASK_ELEMENTS = 2**26
"""Elements of the mask of one forward, where rows go on from what they hold."""
WORTH_SHARING = 512
"""Tokens that reading a common beginning apart must save to make up for its own forward."""


@dataclass(slots=True)
class _Reading:
    """A prompt to be read into a slot, from ``known`` on."""

    prompt: list[int]
    slot: int = -1
    known: int = 0
    source: int = -1
    """The slot to copy what is known from."""

    @property
    def left(self) -> int:
        return len(self.prompt) - self.known


class Prefill:
    """One wave of prompts."""

    def __init__(self, model: CausalModel, cache: SlotCache, pool: SlotPool) -> None:
        self._model, self._cache, self._pool = model, cache, pool
        self._readings: list[_Reading] = []
        self._reading_of: list[int] = []
        self._doubles: list[_Reading] = []

    def assign(self, prompts: list[list[int]]) -> list[int]:
        """Return a slot for each prompt. The pool must have that many."""
        place: dict[object, int] = {}
        for at, prompt in enumerate(prompts):
            name = tuple(prompt) if self._pool.keep else at
            if name not in place:
                place[name] = len(self._readings)
                self._readings.append(self._begin(prompt))
            self._reading_of.append(place[name])
        for reading in self._readings:
            if reading.slot < 0:
                reading.slot = self._pool.take()
        slots, seen = [], set[int]()
        for at in self._reading_of:
            reading = self._readings[at]
            if at in seen:
                length = len(reading.prompt)
                reading = _Reading(reading.prompt, self._pool.take(), length, reading.slot)
                self._doubles.append(reading)
            seen.add(at)
            slots.append(reading.slot)
        return slots

    def _begin(self, prompt: list[int]) -> _Reading:
        match = self._pool.find(prompt)
        if match is None:
            return _Reading(prompt)
        # A slot that the prompt goes on from is its own; one that it resembles is copied.
        if match.length == len(self._pool.ids[match.slot]) and self._pool.claim(match.slot):
            return _Reading(prompt, match.slot, match.length)
        return _Reading(prompt, known=match.length, source=match.slot)

    def read(self) -> Tensor:
        """Read the prompts; return the logits ``[N, V]`` for the token after each."""
        # Before anything is written: a source may be the slot of another prompt by now.
        self._copy([reading for reading in self._readings if reading.source >= 0])
        if self._pool.keep:
            self._share([reading for reading in self._readings if reading.known == 0])
        order: list[int] = []
        hidden: list[Tensor] = []
        for group in self._groups():
            order += group
            hidden.append(self._forward([self._readings[at] for at in group]))
        self._copy(self._doubles)
        row_of = {at: row for row, at in enumerate(order)}
        rows = [row_of[at] for at in self._reading_of]
        logits_NV = self._model.logits(torch.cat(hidden))
        return logits_NV if rows == list(range(len(order))) else logits_NV[rows]

    def _copy(self, readings: list[_Reading]) -> None:
        if readings:
            sources = [reading.source for reading in readings]
            targets = [reading.slot for reading in readings]
            self._cache.copy(sources, targets, max(reading.known for reading in readings))

    def _share(self, new: list[_Reading]) -> None:
        """Read what ``new`` prompts have in common, if it is worth it."""
        if len(new) < 2:
            return
        prompts = [reading.prompt for reading in new]
        shortest = min(map(len, prompts))
        # What the first and the last in alphabetical order share, all share.
        shared = min(common_length(min(prompts), max(prompts)), shortest - 1)
        if shared * (len(new) - 1) < WORTH_SHARING:
            return
        first, others = new[0], new[1:]
        self._forward([_Reading(first.prompt[:shared], first.slot)])
        for reading in new:
            reading.known, reading.source = shared, first.slot
        self._copy(others)

    def _groups(self) -> Iterator[list[int]]:
        def kind(at: int) -> tuple[bool, int]:
            return self._readings[at].known > 0, self._readings[at].left

        group: list[int] = []
        for at in sorted(range(len(self._readings)), key=kind):
            known, left = kind(at)
            if group and (
                (len(group) + 1) * left > GROUP_TOKENS
                or known != kind(group[0])[0]
                or left > 2 * kind(group[0])[1] + ROUND
            ):
                yield group
                group = []
            group.append(at)
        yield group

    def _forward(self, group: list[_Reading]) -> Tensor:
        """Read the group into its slots; return the hidden state ``[B, C]`` of each last token."""
        longest = max(reading.left for reading in group)
        reach = -(-max(len(reading.prompt) for reading in group) // ROUND) * ROUND
        fresh = all(reading.known == 0 for reading in group)
        piece = min(longest, max(1, GROUP_TOKENS // len(group)))
        if piece < longest or not fresh:
            piece = min(piece, max(1, MASK_ELEMENTS // (len(group) * reach)))
        slots = [reading.slot for reading in group]
        prompts = [reading.prompt for reading in group]
        trunk, ids = self._model.trunk, sum(map(len, prompts))
        if fresh and piece == longest and is_worth_it(trunk, ids, len(prompts)):
            return read_packed(trunk, prompts, self._cache, slots)
        run, device = slice(slots[0], slots[0] + len(slots)), self._model.device
        neighbours = slots == list(range(run.start, run.stop))
        slot_B, row_B = torch.tensor(slots, device=device), torch.arange(len(group), device=device)
        known_B1 = torch.tensor([[reading.known] for reading in group], device=device)
        last_B1 = torch.tensor([[reading.left - 1] for reading in group], device=device)
        ids_BT = torch.tensor(
            [
                each.prompt[each.known :] + each.prompt[-1:] * (longest - each.left)
                for each in group
            ],
            device=device,
        )
        for begin in range(0, longest, piece):
            end = min(begin + piece, longest)
            position_BT, mask = None, None
            if not fresh or begin > 0:
                # Padding stays at its row's last position and repeats what is written there. A
                # row that ended in an earlier piece is read again so: its state is the same.
                step_T = torch.arange(begin, end, device=device)
                position_BT = known_B1 + torch.minimum(step_T, last_B1)
                mask = self._model.mask(position_BT, reach)
            self._cache.plan = Batch(slot_B, run if neighbours else None, position_BT, reach)
            new_BT = ids_BT[:, begin:end]
            states_BTC = self._model.hidden(new_BT, self._cache, position_BT, mask)
            hidden_BC = states_BTC[row_B, (last_B1[:, 0] - begin).clamp(0, end - begin - 1)]
        return hidden_BC


def read_packed(
    trunk: Any, prompts: Sequence[Sequence[int]], cache: SlotCache, slots: Sequence[int]
) -> Tensor:
    """Read prompts into their slots, from the first id on; return their last states ``[B, C]``."""
    lengths_B = torch.tensor([len(prompt) for prompt in prompts])
    ids_S = torch.tensor(list(chain.from_iterable(prompts)))
    slot_S = torch.tensor(slots).repeat_interleave(lengths_B)
    packing = Packing.of(lengths_B)
    position_S = packing.position_S

    def keep(layer: int, key_SHD: Tensor, value_SHD: Tensor) -> None:
        cache.write(layer, slot_S, position_S, (key_SHD, value_SHD))

    packing = replace(packing, keep=keep)
    last_B = lengths_B.cumsum(0) - 1
    with packed(trunk.config, packing), last_layer_at(trunk, last_B, packing):
        out = trunk(
            input_ids=ids_S.unsqueeze(0), position_ids=position_S.unsqueeze(0), use_cache=False
        )
    hidden_BC: Tensor = out.last_hidden_state.squeeze(0)
    return hidden_BC
