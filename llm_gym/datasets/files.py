"""Rows of objects in memory and of files.

A place in a JSONL file is a byte offset, so a file of any size costs one number per row. What
cannot be read from the middle (CSV, Parquet, gzip) is read once and held in memory as JSON.

A row that cannot be read raises ``RecordError`` with the file, the line and the reason.
"""

import csv
import gzip
import importlib
import io
import json
import os
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.datasets.rows import SPLIT_NAMES


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


MAX_LINE_BYTES = 16 << 20
MAX_COLUMNS = 10_000
FREE_BYTES, MAX_RATIO = 64 << 20, 50
"""A packed file may unpack to so many bytes, and so many times its own size on top."""
SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".csv", ".tsv", ".parquet")


class JsonLinesFile(Source):
    """A file with one JSON object per line; blank lines are passed over."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path.absolute(), str(path)
        self.origin = str(self.path)

    def scan(self) -> Iterator[LocatedRow]:
        place = 0
        with self._open() as file:
            for number, line in enumerate(_lines(file, self.name), start=1):
                if line.strip():
                    yield LocatedRow(place, number, self._decode(line, number))
                place += len(line)

    def fetch(self, place: int) -> Any:
        with self._open() as file:
            file.seek(place)
            line = file.readline(MAX_LINE_BYTES)
        return self._decode(line, None, place)

    def number(self, place: int) -> int:
        with self._open() as file:
            return _line_number(file, place)

    def _open(self) -> BinaryIO:
        return self.path.open("rb")

    def where(self, number: int) -> str:
        return f"{self.name}, line {number}"

    def _decode(self, line: bytes, number: int | None, place: int = 0) -> Any:
        try:
            # A byte-order mark is what some editors begin a file with.
            return json.loads(line.decode("utf-8-sig"))
        except json.JSONDecodeError as error:
            reason = f"this is not JSON: {error.msg} at character {error.pos + 1}"
        except (ValueError, RecursionError) as error:  # not UTF-8, or endless digits or brackets
            reason = f"this is not JSON: {error}"
        number = self.number(place) if number is None else number
        raise RecordError(f"{self.where(number)}: {reason}")


class UnpackedFile(JsonLinesFile):
    """Rows of a file that cannot be read from the middle, held in memory as lines of JSON."""

    def __init__(self, path: Path, rows: Iterable[bytes], unit: str, first: int) -> None:
        super().__init__(path)
        self._unit, self._first = unit, first
        most, lines = FREE_BYTES + MAX_RATIO * path.stat().st_size, bytearray()
        for block in rows:
            lines += block
            if len(lines) > most:
                raise RecordError(
                    f"{path}: it unpacks to more than {most >> 20} MiB, {MAX_RATIO} times its "
                    "size; unpack it yourself if that is meant to be"
                )
        self._lines = bytes(lines)

    def _open(self) -> BinaryIO:
        return io.BytesIO(self._lines)

    def where(self, number: int) -> str:
        return f"{self.name}, {self._unit} {number - 1 + self._first}"


def open_file(path: Path) -> Source:
    """Return the rows of a file, by its ending."""
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise ConfigError(
            f"dataset must be a file that ends in {', '.join(SUFFIXES)}, got {str(path)!r}; for a "
            "data set of a hub, pass what datasets.load_dataset returns"
        )
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r}")
    if name.endswith((".csv", ".tsv")):
        return _from_rows(path, csv_rows(path, "," if name.endswith(".csv") else "\t"), first=1)
    if name.endswith(".parquet"):
        return _from_rows(path, parquet_rows(path), first=0)
    if name.endswith(".gz"):
        return UnpackedFile(path, _unzip(path), "line", first=1)
    return JsonLinesFile(path)


def _from_rows(path: Path, rows: Iterable[Any], first: int) -> Source:
    lines = (json.dumps(row, default=str).encode() + b"\n" for row in rows)
    return UnpackedFile(path, lines, "row", first)


def csv_rows(path: Path, delimiter: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file with a header line; a cell may span lines."""
    names: list[str] = []
    with path.open("rb") as file:
        text = (line.decode("utf-8-sig") for line in _lines(file, str(path)))
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        while True:
            where = f"{path}, line {reader.line_num + 1}"
            try:
                cells = next(reader, None)
            except (csv.Error, UnicodeDecodeError) as error:
                raise RecordError(f"{where}: this is not CSV: {error}") from error
            if not names:
                names = _header(cells or [], where)
            elif cells is None:
                return
            elif cells and len(cells) != len(names):
                raise RecordError(
                    f"{where}: the row has {len(cells)} cells for {len(names)} columns"
                )
            elif cells:
                yield dict(zip(names, cells, strict=True))


def _header(names: list[str], where: str) -> list[str]:
    if not names:
        raise RecordError(f"{where}: the file must begin with the names of its columns")
    if len(names) > MAX_COLUMNS:
        raise RecordError(f"{where}: a table has at most {MAX_COLUMNS} columns, got {len(names)}")
    for name, count in Counter(names).items():
        if count > 1:
            raise RecordError(f"{where}: the column {name!r:.100} is there twice")
    return names


def _unzip(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") as file:
            while block := file.read(1 << 20):
                yield block
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RecordError(f"{path}: the gzip data is damaged: {error}") from error


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of ``file``; none may be so long that it fills the memory."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise RecordError(
                f"{name}, line {number}: a line must have at most {MAX_LINE_BYTES >> 20} MiB"
            )
        yield line


def _line_number(file: BinaryIO, place: int) -> int:
    number, left = 1, place
    while left > 0 and (block := file.read(min(left, 1 << 20))):
        number += block.count(b"\n")
        left -= len(block)
    return number


_BATCH = 1024


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file, a batch in memory at a time."""
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
        arrow_error: Any = importlib.import_module("pyarrow").ArrowException
    except ImportError as error:
        raise ConfigError("Parquet needs pyarrow. Install it with: pip install pyarrow") from error
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                yield from batch.to_pylist()
    except (arrow_error, OSError) as error:
        raise RecordError(f"{path}: this is not Parquet: {error}") from error


def open_source(
    dataset: Any,
    *,
    split_column: str | None = None,
    limit: int | None = None,
    name: str = "the data set",
) -> Source:
    """Return the rows of ``dataset``.

    Args:
        dataset: A path; an object with ``len`` and ``[]``; any other iterable, which is read once
            and kept; or a dictionary from split to one of these.
        split_column: The column that a dictionary's splits are put into.
        limit: Rows that are kept of an iterable, which may never end.
        name: What messages call a data set that is no file.
    """
    if isinstance(dataset, (str, os.PathLike)):
        return open_file(Path(dataset))
    if isinstance(dataset, Mapping):
        strange = [key for key in dataset if key not in SPLIT_NAMES]
        if strange or not dataset:
            raise ConfigError(
                f"a dictionary of data sets must have splits as keys, got {list(dataset)!r:.100}"
            )
        if split_column is None:
            raise ConfigError("a dictionary of splits needs a split_column, got None")
        parts = {
            split: open_source(part, limit=limit, name=f"the {split} rows")
            for split, part in dataset.items()
        }
        return SplitSources(parts, split_column)
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return InMemorySource(dataset, name)
    if isinstance(dataset, Iterable):
        return InMemorySource(list(islice(dataset, limit)), name)
    raise ConfigError(
        f"dataset must be a path, rows, or a dictionary of splits, got {type(dataset).__name__}"
    )
