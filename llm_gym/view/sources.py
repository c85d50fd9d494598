"""What the viewer shows: run folders, folders of records and single files, indexed.

A source is named by its number in the user's list, and a file by its number in its source, so no
request contains a path. ``EpisodeIndex`` knows where each episode lies in its file and reads only
what is new: a list of 100,000 episodes costs a line each, and a record is read when it is shown.
"""

import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.core.infos import flag
from llm_gym.episodes import Trajectory
from llm_gym.episodes.files import open_file

MAX_LINE = 64 * 2**20
"""Bytes of a record; a longer one is left out."""
MAX_EPISODES = 200_000
"""Episodes of a file; those after them are left out."""
MAX_PROBLEMS = 20
_SNIPPET = 120
_UNREADABLE = (OSError, EOFError, zlib.error)


class Summary(NamedTuple):
    """An episode as a list shows it. Whole numbers that a browser would round are text."""

    line: int
    env: str | None
    seed: str | None
    split: str | None
    group: str | None
    instance: str | None
    policy: str | None
    version: int | None
    stop: str
    success: bool
    reward: float | None
    turns: int
    tokens: int
    invalid: int
    snippet: str


_Stamp = tuple[int, int, int]
"""Inode, size and time of change of a file."""


def _stamp(path: Path) -> _Stamp | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _has_grown(before: _Stamp | None, now: _Stamp | None) -> bool:
    return before is not None and now is not None and before[0] == now[0] and before[1] < now[1]


class EpisodeIndex:
    """The episodes of one file, whole or still being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.label = path.name.removesuffix(".gz").removesuffix(".jsonl")
        """The short name: ``eval-000005`` for ``episodes/eval-000005.jsonl``."""
        iteration = re.search(r"-(\d{6})$", self.label)
        self.iteration = int(iteration[1]) if iteration else None
        self._seen: _Stamp | None = None
        self._clear()

    def _clear(self) -> None:
        self.rows: list[Summary] = []
        self.problems: list[str] = []
        self._places: dict[int, int] = {}
        self._next, self._line = 0, 0

    def refresh(self) -> bool:
        before, self._seen = self._seen, _stamp(self.path)
        if self._seen == before:
            return False
        if not _has_grown(before, self._seen) or self.path.suffix == ".gz":
            self._clear()
        try:
            with open_file(self.path) as file:
                file.seek(self._next)
                self._read(file)
        except FileNotFoundError:
            pass
        except _UNREADABLE as error:  # such as a gzip member that is still being written
            self._add_problem(f"{self.path.name}: {error}")
        return True

    def raw(self, line: int) -> bytes:
        """Return a record as it is in the file, without its line break."""
        if line not in self._places:
            raise RecordError(f"{self.path.name} has no episode in line {line}")
        found = next(self.records([line]))
        try:
            Trajectory.from_json(found.decode())
        except UnicodeDecodeError as error:
            raise RecordError(f"{self.path.name} has changed: {error}") from error
        return found

    def records(self, lines: Iterable[int]) -> Iterator[bytes]:
        """Yield records in one reading of the file; the lines are known ones that go up."""
        try:
            with open_file(self.path) as file:
                for line in lines:
                    file.seek(self._places[line])
                    yield file.readline(MAX_LINE).rstrip(b"\n")
        except _UNREADABLE as error:
            raise RecordError(f"cannot read {self.path.name} any more: {error}") from error

    def search(self, words: str) -> list[int]:
        """Return the lines whose states, actions or messages contain ``words``, in any case."""
        words = words.casefold()
        lines = [row.line for row in self.rows]
        found = zip(lines, self.records(lines), strict=True)
        return [line for line, record in found if _contains(record, words)]

    def _read(self, file: BinaryIO) -> None:
        while len(self.rows) < MAX_EPISODES:
            line = file.readline(MAX_LINE)
            if not line:
                return
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                    pass
                self._add_problem(f"line {self._line + 1}: longer than {MAX_LINE} bytes")
            elif not self._add_record(line, self._line + 1):
                return
            self._next, self._line = file.tell(), self._line + 1
        self._add_problem(f"only the first {MAX_EPISODES} episodes are shown")

    def _add_record(self, line: bytes, number: int) -> bool:
        """Add the record; return False for half a record, whose rest may be being written."""
        if not line.strip():
            return True
        try:
            episode = Trajectory.from_json(line.decode())
        except (RecordError, UnicodeDecodeError) as error:
            if not line.endswith(b"\n"):
                return False
            self._add_problem(f"line {number}: {error}")
        else:
            self._places[number] = self._next
            self.rows.append(summarise(episode, number))
        return True

    def _add_problem(self, what: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(what[:300])


def summarise(episode: Trajectory, line: int) -> Summary:
    """Return what a list shows of ``episode``.

    >>> episode = Trajectory(states=["Hot?"], actions=["warm"], rewards=[0.5], seed=2**62)
    >>> row = summarise(episode, 1)
    >>> row.seed, row.reward, row.turns, row.snippet
    ('4611686018427387904', 0.5, 1, 'warm')
    """
    total = episode.total_reward
    split = episode.split
    text = episode.actions[-1] if episode.actions else (episode.states or [""])[-1]
    return Summary(
        line=line,
        env=episode.env_id,
        seed=None if episode.seed is None else str(episode.seed),
        split=split if isinstance(split, str) else None,
        group=None if episode.group is None else str(episode.group),
        instance=episode.instance_id,
        policy=episode.policy,
        version=episode.weights_version,
        stop=str(episode.stop_reason),
        success=episode.success,
        reward=total if math.isfinite(total) else None,
        turns=episode.num_turns,
        tokens=len(episode.tokens.ids) if episode.tokens else 0,
        invalid=sum(flag(info, "valid_action") is False for info in episode.infos),
        snippet=" ".join(text[: 4 * _SNIPPET].split())[:_SNIPPET],
    )


def _contains(record: bytes, words: str) -> bool:
    try:
        data = json.loads(record)  # it was an episode when it was listed
        contents = (str(message.get("content", "")) for message in data["messages"])
        texts = (*data["states"], *data["actions"], *contents)
        return any(words in text.casefold() for text in texts)
    except (ValueError, LookupError, TypeError, AttributeError):  # it has changed since
        return False


MAX_ROWS = 100_000
"""Rows of metrics that are read."""
MAX_FILES = 5_000
_MAX_CONFIG = 2**20
_MAX_METRICS = 512 * 2**20
_NO_EPISODES = frozenset({"metrics.jsonl", "warm_start.jsonl"})
_ORDER = {"before": 0, "train": 1, "eval": 1, "after": 2}


class MetricsFile:
    """The rows of a ``metrics.jsonl`` that may still grow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.generation = 0
        """Goes up when rows that were there before have changed: a resumed run drops some."""
        self._seen: _Stamp | None = None
        self._next = 0

    def refresh(self) -> None:
        now = _stamp(self.path)
        # To open a pipe would wait for its writer.
        if now is None or now == self._seen or self.path.is_fifo():
            return
        if not _has_grown(self._seen, now):
            self.rows, self._next = [], 0
            self.generation += 1
        self._seen = now
        try:
            with self.path.open("rb") as file:
                file.seek(self._next)
                data = file.read(_MAX_METRICS)
        except OSError:  # a folder, or not readable: there are no rows
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._next += len(whole)
        rows = filter(None, map(_row, whole.splitlines()))
        self.rows += list(rows)[: MAX_ROWS - len(self.rows)]


class ViewSource:
    """A run folder, a folder with records, or a file of records."""

    def __init__(self, place: Path) -> None:
        if not place.exists():
            raise ConfigError(f"cannot view {place}: there is no such file or folder")
        self.place = place
        self.name = place.resolve().name
        self.metrics = MetricsFile(place / "metrics.jsonl")
        self.warm_start = MetricsFile(place / "warm_start.jsonl")
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
        path = self.place / "config.json"
        if not path.is_file():
            return {}
        try:
            with path.open("rb") as file:
                data = json.loads(file.read(_MAX_CONFIG))
        except (OSError, ValueError, RecursionError):
            return {}
        return flatten(data) if isinstance(data, dict) else {}

    def refresh(self) -> None:
        known = {file.path for file in self.files}
        # At the end: the numbers of the others stay.
        found = _episode_files(self.place)
        self.files += [EpisodeIndex(path) for path in found if path not in known]
        changed = [file.refresh() for file in self.files]
        self.version += any(changed)


def open_sources(places: Sequence[Path]) -> list[ViewSource]:
    """Return the sources at ``places``, named apart."""
    sources = [ViewSource(place) for place in places]
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
    return _ORDER.get(kind, 3), int(number) if number.isdecimal() else 0, path.name


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
