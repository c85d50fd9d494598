"""What the slots of a cache hold, and which of them begins like a new prompt.

In a conversation each prompt is the last one, the reply and a little more; in a batch many
prompts begin with the same rules. Whatever is already in a slot need not be read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

BLOCK = 16
"""Ids that are looked up at once: shorter beginnings are not worth finding."""


class Match(NamedTuple):
    """A slot that begins like a prompt, and for how many ids."""

    slot: int
    length: int


class HeldPrefixes:
    """The ids whose keys and values lie in each slot."""

    def __init__(self) -> None:
        self._held: dict[int, list[int]] = {}
        self._marks: dict[int, list[int]] = {}
        self._slot_of: dict[int, int] = {}

    def __getitem__(self, slot: int) -> list[int]:
        return self._held.get(slot, [])

    def hold(self, slot: int, ids: list[int]) -> None:
        """Note that ``slot`` holds ``ids`` from now on."""
        self.drop(slot)
        if ids:
            self._held[slot] = ids
            self._marks[slot] = marks = list(_marks(ids))
            self._slot_of.update(dict.fromkeys(marks, slot))

    def drop(self, slot: int) -> None:
        """Forget what ``slot`` holds."""
        self._held.pop(slot, None)
        for mark in self._marks.pop(slot, ()):
            if self._slot_of.get(mark) == slot:
                del self._slot_of[mark]

    def swap(self, first: int, second: int) -> None:
        """Follow two slots that were exchanged."""
        one, other = self[first], self[second]
        self.hold(first, other)
        self.hold(second, one)

    def clear(self) -> None:
        """Forget everything."""
        for held in (self._held, self._marks, self._slot_of):
            held.clear()

    def find(self, prompt: list[int]) -> Match | None:
        """Return the slot that shares the longest beginning with ``prompt``, of those indexed.

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
        length = min(common_length(self[best], prompt), len(prompt) - 1)
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
