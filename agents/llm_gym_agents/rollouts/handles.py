"""Ragged Python things behind dense int64 handles.

A TensorDict step costs per leaf and per string, so text and token lists do not travel in it:
they lie in a table, and a handle to each travels instead. Whoever assembles a batch reads the
handles back and then clears the table. Handle 0 is always the empty entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Handles(Generic[T]):
    """Entries by handle.

    >>> texts = Handles("")
    >>> handle = texts.add("go north")
    >>> texts.read([handle, 0])
    ['go north', '']
    """

    def __init__(self, empty: T) -> None:
        self._first = 1
        self._entries: list[T] = []
        self._empty = empty

    def add(self, entry: T) -> int:
        """Return a new handle for ``entry``."""
        self._entries.append(entry)
        return self._first + len(self._entries) - 1

    def read(self, handles: Iterable[int]) -> list[T]:
        """Return the entries of ``handles``; one that was cleared or never given raises."""
        return [self[handle] for handle in handles]

    def __getitem__(self, handle: int) -> T:
        if handle == 0:
            return self._empty
        at = handle - self._first
        if not 0 <= at < len(self._entries):
            raise KeyError(
                f"handle {handle} is not in the table, which holds {self._first} to "
                f"{self._first + len(self._entries) - 1}; was it cleared before this was read?"
            )
        return self._entries[at]

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forget every entry. Handles are never given out twice, so a stale one is noticed."""
        self._first += len(self._entries)
        self._entries.clear()
