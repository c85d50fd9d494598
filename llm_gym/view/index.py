"""Where each episode lies in its file, and what a list shows of it.

A file may hold gigabytes and may still be written, so it is read once, line by line, and later
only from where the last reading ended. What is not an episode is counted and named, never raised:
the page shows the rest.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from llm_gym.core.infos import flag
from llm_gym.episodes import Trajectory
from llm_gym.episodes.files import open_file
from llm_gym.errors import RecordError

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


class EpisodeIndex:
    """The episodes of one file.

    Args:
        path: A ``.jsonl`` or ``.jsonl.gz`` file, whole or still being written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()
        self._seen: tuple[int, int, int] | None = None

    def _forget(self) -> None:
        self.rows: list[Summary] = []
        self.problems: list[str] = []
        self._places: dict[int, int] = {}
        self._next, self._line = 0, 0

    def refresh(self) -> bool:
        """Read what is new; return whether anything was."""
        try:
            stat = self.path.stat()
        except OSError:
            changed = self._seen is not None
            self._forget()
            self._seen = None
            return changed
        now = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if now == self._seen:
            return False
        before, self._seen = self._seen, now
        grown = before is not None and before[0] == now[0] and before[1] < now[1]
        if not grown or self.path.suffix == ".gz":
            self._forget()
        try:
            with open_file(self.path) as file:
                file.seek(self._next)
                self._read(file)
        except _UNREADABLE as error:  # such as a gzip member that is still being written
            self._complain(f"{self.path.name}: {error}")
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
        return [line for line, record in found if _says(record, words)]

    def _read(self, file: BinaryIO) -> None:
        while len(self.rows) < MAX_EPISODES:
            line = file.readline(MAX_LINE)
            if not line:
                return
            ended = line.endswith(b"\n")
            while not ended and len(line) >= MAX_LINE:
                rest = file.readline(MAX_LINE)
                if not rest or rest.endswith(b"\n"):
                    self._complain(f"line {self._line + 1}: longer than {MAX_LINE} bytes")
                    self._advance(file)
                    break
            else:
                if not self._take(line, ended):
                    return  # half a record: its writer may be writing the rest just now
                self._advance(file)
        self._complain(f"only the first {MAX_EPISODES} episodes are shown")

    def _advance(self, file: BinaryIO) -> None:
        self._next, self._line = file.tell(), self._line + 1

    def _take(self, line: bytes, ended: bool) -> bool:
        number = self._line + 1
        if not line.strip():
            return True
        try:
            episode = Trajectory.from_json(line.decode())
        except (RecordError, UnicodeDecodeError) as error:
            if ended:
                self._complain(f"line {number}: {error}")
            return ended
        self._places[number] = self._next
        self.rows.append(summarise(episode, number))
        return True

    def _complain(self, what: str) -> None:
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


def _says(record: bytes, words: str) -> bool:
    try:
        data = json.loads(record)  # it was an episode when it was listed
        said = (str(each.get("content", "")) for each in data["messages"])
        return any(words in text.casefold() for text in (*data["states"], *data["actions"], *said))
    except (ValueError, LookupError, TypeError, AttributeError):  # it has changed since
        return False
