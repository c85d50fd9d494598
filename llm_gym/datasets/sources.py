"""``Source``: rows that are read from end to end once, and again one by one.

``scan`` yields each row with its *place*; ``fetch`` reads the row at a place again. These sources
are objects in memory; ``files`` has those that are files.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple


class LocatedRow(NamedTuple):
    """A row that was read."""

    place: int
    """Where ``fetch`` finds it again."""
    number: int
    """What ``where`` calls it: a line of a file, or a row of an object."""
    data: Any


class Source(ABC):
    """Rows that can be read in order, and again one by one."""

    name: str
    """For messages."""
    origin: Any
    """What ``open_source`` was given, or something that opens again to the same rows."""

    @abstractmethod
    def scan(self) -> Iterator[LocatedRow]:
        """Yield every row in order."""

    def first(self, limit: int | None) -> Iterator[LocatedRow]:
        """Yield the first ``limit`` rows in order; None is all of them."""
        return islice(self.scan(), limit)

    @abstractmethod
    def fetch(self, place: int) -> Any:
        """Return the row at ``place``."""

    def number(self, place: int) -> int:
        """Return the number of the row at ``place``; slow, for messages."""
        return place

    def where(self, number: int) -> str:
        """Return the words that name a row in a message."""
        return f"{self.name}, row {number}"


class InMemorySource(Source):
    """Rows of an object with a length and an index: a list, or a ``datasets.Dataset``."""

    def __init__(self, rows: Any, name: str = "the data set") -> None:
        self.name, self.origin, self._rows = name, rows, rows

    def scan(self) -> Iterator[LocatedRow]:
        rows = self._rows
        every = rows if hasattr(rows, "__iter__") else map(rows.__getitem__, range(len(rows)))
        for number, row in enumerate(every):
            yield LocatedRow(number, number, row)

    def fetch(self, place: int) -> Any:
        return self._rows[place]


class SplitSources(Source):
    """Several sources one after another, each of them a split."""

    def __init__(self, parts: Mapping[str, Source], column: str) -> None:
        self.name = ", ".join(source.name for source in parts.values())
        self.origin = {split: source.origin for split, source in parts.items()}
        self._parts, self._column = list(parts.items()), column

    # Places and numbers of all the parts, told apart by their remainder.

    def scan(self) -> Iterator[LocatedRow]:
        return self.first(None)

    def first(self, limit: int | None) -> Iterator[LocatedRow]:
        """Yield the first ``limit`` rows of every split."""
        count = len(self._parts)
        for at, (split, source) in enumerate(self._parts):
            for place, number, data in source.first(limit):
                yield LocatedRow(place * count + at, number * count + at, self._label(data, split))

    def fetch(self, place: int) -> Any:
        place, (split, source) = place // len(self._parts), self._parts[place % len(self._parts)]
        return self._label(source.fetch(place), split)

    def number(self, place: int) -> int:
        count = len(self._parts)
        return self._parts[place % count][1].number(place // count) * count + place % count

    def where(self, number: int) -> str:
        return self._parts[number % len(self._parts)][1].where(number // len(self._parts))

    def _label(self, data: Any, split: str) -> Any:
        return {**data, self._column: split} if isinstance(data, Mapping) else data
