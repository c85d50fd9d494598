"""Reading prompts into slots, each beginning only once.

``assign`` finds a slot for every prompt and what is known of it already; ``read`` reads the
rest. Equal prompts are read once and copied. What all new prompts have in common is read
once, too.

Shapes: B rows of a group, T tokens of a row, N prompts, V vocabulary, C hidden channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from llm_gym_agents.engines.causal import CausalModel
from llm_gym_agents.engines.prefixes import HeldPrefixes, common_length
from llm_gym_agents.engines.slots import Batch, SlotCache

GROUP_TOKENS = 8192
"""Tokens of a forward, padding included: bounds its activations."""
MASK_ELEMENTS = 2**26
"""Bounds the mask of a forward that continues long rows."""
WORTH_SHARING = 512
"""Tokens that reading a common beginning apart must save to make up for its forward."""


@dataclass(slots=True)
class _Reading:
    """A prompt to be read into a slot, from ``known`` on."""

    prompt: list[int]
    slot: int
    known: int = 0

    @property
    def left(self) -> int:
        return len(self.prompt) - self.known


class Prefill:
    """One wave of prompts.

    Args:
        model: Reads them.
        cache: Where their keys and values go.
        held: What slots hold already, or None to read everything anew.
    """

    def __init__(self, model: CausalModel, cache: SlotCache, held: HeldPrefixes | None) -> None:
        self._model, self._cache, self._held = model, cache, held
        self._readings: list[_Reading] = []
        self._reading_of: list[int] = []
        self._copies: list[tuple[int, int, int]] = []
        self._doubles: list[tuple[int, int, int]] = []

    def assign(self, prompts: list[list[int]], idle: dict[int, None], slots: int) -> list[int]:
        """Return a slot for each prompt, taken out of ``idle`` or made new.

        Args:
            prompts: At most as many as there are idle and unmade slots.
            idle: Slots that may be taken, those to be taken first in front.
            slots: How many slots there may be in all.
        """
        leaders: dict[tuple[int, ...], int] = {}
        for prompt in prompts:
            at = leaders.setdefault(tuple(prompt), len(leaders))
            self._reading_of.append(at)
        found: list[int | None] = []
        for ids in leaders:
            reading = _Reading(list(ids), -1)
            self._readings.append(reading)
            found.append(self._match(reading, idle))
        fresh = iter(range(self._cache.slots, slots))

        def take() -> int:
            empty = next((slot for slot in idle if not self._holds(slot)), None)
            if empty is None and (new := next(fresh, None)) is not None:
                return new
            slot = next(iter(idle)) if empty is None else empty
            del idle[slot]
            return slot

        for reading, source in zip(self._readings, found, strict=True):
            if reading.slot < 0:
                reading.slot = take()
                if source is not None:
                    self._copies.append((source, reading.slot, reading.known))
        taken = []
        led = set[int]()
        for at in self._reading_of:
            leader = self._readings[at]
            if at not in led:
                led.add(at)
                taken.append(leader.slot)
                continue
            taken.append(take())
            self._doubles.append((leader.slot, taken[-1], len(leader.prompt)))
        return taken
