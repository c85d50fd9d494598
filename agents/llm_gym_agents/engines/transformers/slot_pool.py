"""Which slots of a cache are free, what they hold, and which begins like a new prompt.

In a conversation each prompt is the last one, the reply and a little more; in a batch many
prompts begin with the same rules. Whatever already lies in a slot need not be read again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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

    Args:
        count: Number of slots.
        keep: Whether slots keep their ids at all.
    """

    def __init__(self, count: int, keep: bool) -> None:
        self.count, self.keep = count, keep
        self._empty = list(range(count))  # a heap: low slots make a dense batch
        self._kept: dict[int, None] = {}  # in the order in which they were given back
        self._ids: dict[int, list[int]] = {}
        self._marks: dict[int, list[int]] = {}
        self._slot_of: dict[int, int] = {}

    @property
    def free(self) -> int:
        """How many slots can be taken."""
        return len(self._empty) + len(self._kept)

    def ids(self, slot: int) -> list[int]:
        """Return the ids that ``slot`` is known to hold."""
        return self._ids.get(slot, [])

    def take(self) -> int:
        """Return a free slot: an empty one, or else the one that nobody took for longest."""
        if self._empty:
            return heapq.heappop(self._empty)
        slot = next(iter(self._kept))
        del self._kept[slot]
        self._forget(slot)
        return slot

    def claim(self, slot: int) -> bool:
        """Take ``slot`` with what it holds; return whether it was free."""
        if slot not in self._kept:
            return False
        del self._kept[slot]
        return True

    def give(self, slot: int, ids: list[int]) -> None:
        """Give back a slot that holds ``ids``."""
        self.note(slot, ids)
        if self.ids(slot):
            self._kept[slot] = None
        else:
            heapq.heappush(self._empty, slot)

    def note(self, slot: int, ids: list[int]) -> None:
        """Note what ``slot`` holds."""
        self._forget(slot)
        if self.keep and ids:
            self._ids[slot] = ids
            self._marks[slot] = marks = list(_marks(ids))
            self._slot_of.update(dict.fromkeys(marks, slot))

    def trade(self, free: int, taken: int) -> None:
        """Follow the exchange of a free slot with a taken one: now ``taken`` is the free one."""
        if not self.claim(free):
            self._empty.remove(free)
            heapq.heapify(self._empty)
        of_free, of_taken = self.ids(free), self.ids(taken)
        self.give(taken, of_free)
        self.note(free, of_taken)

    def forget(self) -> None:
        """Forget what all slots hold."""
        self._empty.extend(self._kept)
        heapq.heapify(self._empty)
        for known in (self._kept, self._ids, self._marks, self._slot_of):
            known.clear()

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
        length = min(common_length(self.ids(best), prompt), len(prompt) - 1)
        return Match(best, length) if length > 0 else None

    def _forget(self, slot: int) -> None:
        self._ids.pop(slot, None)
        for mark in self._marks.pop(slot, ()):
            if self._slot_of.get(mark) == slot:
                del self._slot_of[mark]


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
