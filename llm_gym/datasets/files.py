"""Rows of objects and of files, held in memory.

A file is held as lines of JSON, and a row is decoded when it is asked for. A row that cannot be
read raises ``RecordError`` with the file, the line and the reason.
"""

import csv
import gzip
import importlib
import json
import os
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any

from llm_gym.core.errors import ConfigError, RecordError, error_words
from llm_gym.datasets.rows import SPLIT_NAMES


class Source:
    """Rows of an object with a length and an index: a list, or a ``datasets.Dataset``."""

    def __init__(self, rows: Any, name: str = "the data set", limit: int | None = None) -> None:
        self.name = name
        """For messages."""
        self.origin = rows
        """What ``open_source`` was given, or something that opens again to the same rows."""
        self._rows, self._limit = rows, limit

    def __len__(self) -> int:
        return len(self._rows) if self._limit is None else min(len(self._rows), self._limit)

    def data(self, at: int) -> Any:
        """Return the row at a place."""
        try:
            return self._rows[at]
        except (LookupError, TypeError) as error:  # such as a table that is read by column
            raise RecordError(
                f"{self.where(at)}: it cannot be read by its number ({error_words(error)}); pass a "
                "list of dictionaries"
            ) from error

    def where(self, at: int) -> str:
        """Return the name of a row for error messages."""
        return f"{self.name}, row {at}"


class SplitSources(Source):
    """Several sources one after another, each of them a split."""

    def __init__(self, parts: Mapping[str, Source], column: str) -> None:
        places = [(part, at, split) for split, part in parts.items() for at in range(len(part))]
        super().__init__(places, ", ".join(part.name for part in parts.values()))
        self.origin = {split: part.origin for split, part in parts.items()}
        self._column = column

    def data(self, at: int) -> Any:
        part, place, split = self._rows[at]
        data = part.data(place)
        return {**data, self._column: split} if isinstance(data, Mapping) else data

    def where(self, at: int) -> str:
        part, place, _ = self._rows[at]
        return str(part.where(place))


MAX_LINE_BYTES = 16 << 20
MAX_COLUMNS = 10_000
FREE_BYTES, MAX_RATIO = 64 << 20, 50
"""A compressed file may expand to this many bytes plus this multiple of its own size."""
SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".csv", ".tsv", ".parquet")


class FileSource(Source):
    """Rows of a file: ``lines`` of JSON, each with its line number in the file."""

    def __init__(self, path: Path, lines: Iterable[tuple[int, bytes]], unit: str) -> None:
        super().__init__([], str(path))
        self.origin, self._unit = str(path.absolute()), unit
        self._numbers = array("q")
        most, size = FREE_BYTES + MAX_RATIO * path.stat().st_size, 0
        for number, line in lines:
            self._rows.append(line)
            self._numbers.append(number)
            size += len(line)
            if size > most:
                raise RecordError(
                    f"{path}: it unpacks to more than {most >> 20} MiB, {MAX_RATIO} times its "
                    "size; unpack it yourself if that is meant to be"
                )

    def data(self, at: int) -> Any:
        try:
            # A byte-order mark is what some editors begin a file with.
            return json.loads(self._rows[at].decode("utf-8-sig"))
        except json.JSONDecodeError as error:
            reason = f"this is not JSON: {error.msg} at character {error.pos + 1}"
        except (ValueError, RecursionError) as error:  # not UTF-8, or endless digits or brackets
            reason = f"this is not JSON: {error}"
        raise RecordError(f"{self.where(at)}: {reason}")

    def where(self, at: int) -> str:
        return f"{self.name}, {self._unit} {self._numbers[at]}"


def open_file(path: Path, limit: int | None = None) -> Source:
    """Return the first ``limit`` rows of a file, by its ending; None is all of them."""
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise ConfigError(
            f"dataset must be a file that ends in {', '.join(SUFFIXES)}, got {str(path)!r}; for a "
            "data set of a hub, pass what datasets.load_dataset returns"
        )
    if not os.path.isfile(path):  # ``Path.is_file`` raises for a name that is too long
        raise ConfigError(f"there is no file {str(path)!r}")
    if name.endswith(".parquet"):
        rows = _as_json_lines(parquet_rows(path), 0)
    elif name.endswith((".csv", ".tsv")):
        rows = _as_json_lines(csv_rows(path, "," if name.endswith(".csv") else "\t"), 1)
    else:
        return FileSource(path, islice(json_lines(path), limit), "line")
    return FileSource(path, islice(rows, limit), "row")


def _as_json_lines(rows: Iterable[Any], first: int) -> Iterator[tuple[int, bytes]]:
    for number, row in enumerate(rows, first):
        yield number, json.dumps(row, default=str).encode()


def json_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, with their numbers."""
    open_it: Any = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with open_it(path, "rb") as file:
            for number, line in enumerate(_lines(file, str(path)), start=1):
                if line.strip():
                    yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RecordError(f"{path}: the gzip data is damaged: {error}") from error


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
                names = _check_header(cells or [], where)
            elif cells is None:
                return
            elif cells and len(cells) != len(names):
                raise RecordError(
                    f"{where}: the row has {len(cells)} cells for {len(names)} columns"
                )
            elif cells:
                yield dict(zip(names, cells, strict=True))


def _check_header(names: list[str], where: str) -> list[str]:
    if not names:
        raise RecordError(f"{where}: the file must begin with the names of its columns")
    if len(names) > MAX_COLUMNS:
        raise RecordError(f"{where}: a table has at most {MAX_COLUMNS} columns, got {len(names)}")
    for name, count in Counter(names).items():
        if count > 1:
            raise RecordError(f"{where}: the column {name!r:.100} is there twice")
    return names


def _lines(file: IO[bytes] | gzip.GzipFile, name: str) -> Iterator[bytes]:
    """Yield the lines of ``file``; none may be so long that it fills the memory."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise RecordError(
                f"{name}, line {number}: a line must have at most {MAX_LINE_BYTES >> 20} MiB"
            )
        yield line


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
        split_column: The column that stores the split if ``dataset`` is a dictionary.
        limit: Maximum rows to read, per split of a dictionary.
        name: Name of a data set that is not a file, for error messages.
    """
    if isinstance(dataset, (str, os.PathLike)):
        return open_file(Path(dataset), limit)
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
        return Source(dataset, name, limit)
    if isinstance(dataset, Iterable):
        return Source(list(islice(dataset, limit)), name)
    raise ConfigError(
        f"dataset must be a path, rows, or a dictionary of splits, got {type(dataset).__name__}"
    )
