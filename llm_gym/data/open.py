"""From what people call a data set to its rows: a path, rows, or a dictionary of splits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from llm_gym.data.columns import SPLIT_NAMES
from llm_gym.data.files import open_file
from llm_gym.data.source import Joined, Memory, Source
from llm_gym.errors import ConfigError


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
        return Joined(parts, split_column)
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return Memory(dataset, name)
    if isinstance(dataset, Iterable):
        return Memory(list(islice(dataset, limit)), name)
    raise ConfigError(
        f"dataset must be a path, rows, or a dictionary of splits, got {type(dataset).__name__}"
    )
