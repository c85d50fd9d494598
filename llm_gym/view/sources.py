"""What there is to see: run folders, folders of records, and single files.

A source is named by its number in the list that the user gave, and a file by its number in its
source, so that no request ever contains a path.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_gym.errors import ConfigError
from llm_gym.view.index import EpisodeIndex

MAX_ROWS = 100_000
"""Rows of metrics that are read."""
MAX_FILES = 5_000
_MAX_CONFIG = 2**20
_MAX_METRICS = 512 * 2**20
_ITERATION = re.compile(r"-(\d{6})$")
_NO_EPISODES = frozenset({"metrics.jsonl", "warm_start.jsonl"})
_ORDER = ("before", "train", "eval", "after")


class Metrics:
    """The rows of a ``metrics.jsonl`` that may still grow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.generation = 0
        """Goes up when rows that were there before have changed: a resumed run drops some."""
        self._seen: tuple[int, int, int] | None = None
        self._next = 0

    def refresh(self) -> None:
        """Read what is new."""
        try:
            stat = self.path.stat()
        except OSError:
            return
        now = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if now == self._seen:
            return
        before, self._seen = self._seen, now
        if before is None or before[0] != now[0] or before[1] >= now[1]:
            self.rows, self._next = [], 0
            self.generation += 1
        try:
            with self.path.open("rb") as file:
                file.seek(self._next)
                data = file.read(_MAX_METRICS)
        except OSError:  # a folder of that name, or not ours to read: there are no rows
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._next += len(whole)
        rows = filter(None, map(_row, whole.splitlines()))
        self.rows += list(rows)[: MAX_ROWS - len(self.rows)]


class Source:
    """A run folder, a folder with records, or a file of records.

    Args:
        place: Where it is.
    """

    def __init__(self, place: Path) -> None:
        if not place.exists():
            raise ConfigError(f"cannot view {place}: there is no such file or folder")
        self.place = place
        self.name = place.resolve().name
        self.metrics = Metrics(place / "metrics.jsonl")
        self.warm_start = Metrics(place / "warm_start.jsonl")
        self.files: list[EpisodeIndex] = []
        self.version = 0
        """Goes up whenever the episodes have changed."""
        self.refresh()
        self.metrics.refresh()
        if not place.is_dir() and not any(file.rows for file in self.files):
            why = next((each for file in self.files for each in file.problems), "it is empty")
            raise ConfigError(f"{place} holds no episodes: {why}")

    def config(self) -> dict[str, Any]:
        """Return the run's settings as ``section.name`` to value; empty where there are none."""
        try:
            with (self.place / "config.json").open("rb") as file:
                data = json.loads(file.read(_MAX_CONFIG))
        except (OSError, ValueError, RecursionError):
            return {}
        return flatten(data) if isinstance(data, dict) else {}

    def refresh(self) -> None:
        """Look for new files and new episodes."""
        known = {file.path: file for file in self.files}
        found = _episode_files(self.place)
        for path in found:
            if path not in known:  # at the end: the numbers of the others stay
                self.files.append(EpisodeIndex(path))
        changed = [file.refresh() for file in self.files]
        self.version += any(changed)

    def label(self, file: EpisodeIndex) -> str:
        """Return the short name of a file: ``eval-000005`` for ``episodes/eval-000005.jsonl``."""
        return file.path.name.removesuffix(".gz").removesuffix(".jsonl")

    def iteration(self, file: EpisodeIndex) -> int | None:
        """Return the iteration that a file's name tells."""
        found = _ITERATION.search(self.label(file))
        return int(found[1]) if found else None


def open_sources(places: Sequence[Path]) -> list[Source]:
    """Return the sources at ``places``, named apart."""
    sources = [Source(place) for place in places]
    names = [source.name for source in sources]
    for source in sources:
        if names.count(source.name) > 1:
            source.name = str(source.place)
    return sources


def flatten(data: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return nested settings as one level.

    >>> flatten({"training": {"gamma": 0.9}, "name": "a"})
    {'training.gamma': 0.9, 'name': 'a'}
    """
    found: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, dict) and value:
            found |= flatten(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found


def _episode_files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    folders = [place / "episodes", place]
    found = [
        path
        for folder in folders
        for pattern in ("*.jsonl", "*.jsonl.gz")
        for path in folder.glob(pattern)
        if path.is_file() and path.name not in _NO_EPISODES and not path.name.startswith(".")
    ]
    return sorted(found, key=_by_time)[:MAX_FILES]


def _by_time(path: Path) -> tuple[int, int, str]:
    kind, _, number = path.name.partition(".")[0].partition("-")
    rank = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
    middle = 1 if kind in ("train", "eval") else rank
    return middle, int(number) if number.isdecimal() else 0, path.name


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    return {name: value for name, value in row.items() if _is_number(value)}


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False
