"""Keys and values of many replies, in slots that outlive a batch.

A slot is one row of a tensor per layer and holds one sequence from position 0 on. A new token is
written behind the last one of its row, and the mask hides what lies beyond. So replies join and
leave a running batch without moving others (``SlotCache``).

``SlotPool`` knows which slots are free and what they hold. In a conversation each prompt is the
last one, the reply and a little more; in a batch many prompts begin with the same rules. What
already lies in a slot is not read again.

Shapes: S slots, L positions, H heads, D of one head, B rows of a batch, T new tokens of a row.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

ROUND = 16
"""Positions are reserved and read in steps of this: GPU kernels want aligned masks."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Which slots the next forward writes and reads."""

    slot_B: Tensor
    contiguous: slice | None
    """The same slots, if they are neighbours: reading them then copies nothing."""
    position_BT: Tensor | None
    """Where the new tokens go; None where every row begins, and sees only itself."""
    length: int
    """Positions to read."""


class SlotCache(Cache):
    """A transformers cache whose rows are slots.

    ``plan`` says what the next forward does. ``reserve`` makes room beforehand.
    """

    plan: Batch

    def __init__(self, layers: int, count: int) -> None:
        self._own = [_SlotLayer(self) for _ in range(layers)]
        super().__init__(layers=[*self._own])
        self.count = count
        self.slots = self.length = 0

    def reserve(self, slots: int, length: int) -> None:
        """Make room for ``slots`` sequences of ``length`` tokens, keeping what is there.

        Room grows by half at least, because everything is copied each time. A layer grows when it
        is next used, so that running out of memory leaves all of them as they are.
        """
        if slots > self.slots:
            self.slots = min(max(slots, self.slots * 3 // 2), self.count)
        if length > self.length:
            self.length = -(-max(length, self.length * 3 // 2) // ROUND) * ROUND

    def write(self, layer: int, slot_S: Tensor, position_S: Tensor, new: Sequence[Tensor]) -> None:
        """Write keys and values, ``[S, H, D]`` each, at these positions of these slots."""
        own = self._own[layer]
        own.make_room(new)
        for states_SLHD, new_SHD in zip(own.states, new, strict=True):
            states_SLHD[slot_S, position_S] = new_SHD

    def copy(self, sources: list[int], targets: list[int], length: int) -> None:
        """Copy the first ``length`` positions of slots, all read before any is written."""
        for layer in self._own:
            layer.make_room()
        states = [states_SLHD for layer in self._own for states_SLHD in layer.states]
        if states:
            read, write = (torch.tensor(one, device=states[0].device) for one in (sources, targets))
        for states_SLHD in states:
            states_SLHD[write, :length] = states_SLHD[read, :length]

    def free(self) -> None:
        self.slots = self.length = 0
        for layer in self._own:
            layer.states = []


class _SlotLayer(CacheLayerMixin):
    is_sliding = False

    def __init__(self, cache: SlotCache) -> None:
        super().__init__()
        self.cache = cache
        self.states: list[Tensor] = []
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write ``[B, H, T, D]`` into the slots; return all that the rows may look at."""
        plan = self.cache.plan
        new = [one.transpose(1, 2) for one in (key_states, value_states)]
        self.make_room(new)
        slots = plan.slot_B if plan.contiguous is None else plan.contiguous
        if plan.position_BT is None:
            for states_SLHD, new_BTHD in zip(self.states, new, strict=True):
                states_SLHD[slots, : new_BTHD.shape[1]] = new_BTHD
            return key_states, value_states
        row_B1 = plan.slot_B.unsqueeze(1)
        read = []
        for states_SLHD, new_BTHD in zip(self.states, new, strict=True):
            states_SLHD[row_B1, plan.position_BT] = new_BTHD
            read.append(states_SLHD[:, : plan.length][slots].transpose(1, 2))
        return read[0], read[1]

    def make_room(self, new: Sequence[Tensor] = ()) -> None:
        """Make as much room as the cache has reserved; at first for keys and values like ``new``.

        The last dimensions of ``new`` are H and D. Room is filled with 0: what is masked is still
        multiplied, and must be a number.
        """
        size = (self.cache.slots, self.cache.length)
        if not self.states:
            self.states = [one.new_zeros(0, 0, *one.shape[-2:]) for one in new]
        for at, old_SLHD in enumerate(self.states):
            if old_SLHD.shape[:2] != size:
                new_SLHD = old_SLHD.new_zeros(*size, *old_SLHD.shape[2:])
                new_SLHD[: old_SLHD.shape[0], : old_SLHD.shape[1]] = old_SLHD
                self.states[at] = new_SLHD

    # What transformers asks when it makes a mask or positions itself: only where rows begin.

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: the first ``update`` makes room."""

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return query_length, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return -1


BLOCK = 16
"""Ids that are looked up at once: shorter beginnings are not worth finding."""


class Match(NamedTuple):
    """A slot that begins like a prompt, and for how many ids."""

    slot: int
    length: int


class SlotPool:
    """Slots that are taken and given back.

    A slot that is given back keeps its ids until somebody needs the room, and a slot that is
    taken may serve as an example, too: what it holds is known from ``note`` on.
    """

    def __init__(self, count: int, keep: bool) -> None:
        self.count, self.keep = count, keep
        self.ids: list[list[int]] = [[] for _ in range(count)]
        """What each slot is known to hold."""
        self._marks: list[list[int]] = [[] for _ in range(count)]
        self._slot_of: dict[int, int] = {}  # by mark
        self._empty = list(range(count))  # a heap: low slots make a dense batch
        self._kept: dict[int, None] = {}  # in the order in which they were given back

    @property
    def free(self) -> int:
        return len(self._empty) + len(self._kept)

    def take(self) -> int:
        """Return a free slot: an empty one, or else the least recently used one."""
        if self._empty:
            return heapq.heappop(self._empty)
        slot = next(iter(self._kept))
        del self._kept[slot]
        self.note(slot, [])
        return slot

    def claim(self, slot: int) -> bool:
        """Take ``slot`` with what it holds; return whether it was free."""
        if slot not in self._kept:
            return False
        del self._kept[slot]
        return True

    def give(self, slot: int, ids: list[int]) -> None:
        self.note(slot, ids)
        if self.ids[slot]:
            self._kept[slot] = None
        else:
            heapq.heappush(self._empty, slot)

    def note(self, slot: int, ids: list[int]) -> None:
        """Note that ``slot`` holds ``ids``, and no longer what it held."""
        for mark in self._marks[slot]:
            if self._slot_of.get(mark) == slot:
                del self._slot_of[mark]
        self.ids[slot] = ids if self.keep else []
        self._marks[slot] = list(_marks(self.ids[slot]))
        self._slot_of.update(dict.fromkeys(self._marks[slot], slot))

    def trade(self, free: int, taken: int) -> None:
        """Follow the exchange of a free slot with a taken one: now ``taken`` is the free one."""
        if not self.claim(free):
            self._empty.remove(free)
            heapq.heapify(self._empty)
        of_free, of_taken = self.ids[free], self.ids[taken]
        self.give(taken, of_free)
        self.note(free, of_taken)

    def forget(self) -> None:
        self._empty.extend(self._kept)
        heapq.heapify(self._empty)
        self._kept.clear()
        for slot in range(self.count):
            self.note(slot, [])

    def find(self, prompt: list[int]) -> Match | None:
        """Return a slot that begins like ``prompt`` for as long as any does.

        The last id is never part of a match: reading it is what gives the first logits.
        """
        best = None
        for mark in _marks(prompt):
            slot = self._slot_of.get(mark)
            if slot is None:
                break
            best = slot
        if best is None:
            return None
        length = min(common_length(self.ids[best], prompt), len(prompt) - 1)
        return Match(best, length) if length > 0 else None


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many ids two sequences share at their beginning.

    >>> common_length([1, 2, 3, 4], [1, 2, 4]), common_length([], [1])
    (2, 0)
    """
    low, high = 0, min(len(first), len(second))
    while low < high:  # comparing slices is so fast that bisecting beats a loop over ids
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _marks(ids: list[int]) -> Iterator[int]:
    """Yield a number for every beginning of ``ids`` that is some blocks long."""
    mark = 0
    for end in range(BLOCK, len(ids) + 1, BLOCK):
        mark = hash((mark, *ids[end - BLOCK : end]))
        yield mark
