"""The one door to pyarrow, which reads Parquet files."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_gym.errors import ConfigError, RecordError

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
