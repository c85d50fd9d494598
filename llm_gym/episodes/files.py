"""Files of episode records: one line of JSON each, compressed when the name ends in ``.gz``.

A killed writer leaves complete lines and at most one incomplete line at the end. Each record is one
``write``. In a ``.gz`` each record is its own gzip member, so everything before an incomplete end
stays readable, at the cost of some compression.
"""

import gzip
import itertools
import json
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal, Self

from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.episodes.record import Trajectory

_log = logging.getLogger(__name__)
_MARK = b'{"schema":'  # how every record begins
_BLOCK = 1 << 16
MAX_RECORD_BYTES = 64 << 20
"""Maximum size of a record: a small ``.gz`` could contain a line that fills the memory."""


def read_episodes(
    path: str | os.PathLike[str],
    *,
    torn: Literal["raise", "skip"] = "raise",
    on_bad: Callable[[RecordError], object] | None = None,
) -> Iterator[Trajectory]:
    """Yield the episodes in ``path``, one at a time.

    A line that is not a valid record raises ``RecordError`` with file, line number and reason.

    Args:
        path: A ``.jsonl`` or ``.jsonl.gz`` file.
        torn: What to do with an incomplete last line: ``raise``, or ``skip`` it with a log message.
            Every other bad line raises.
        on_bad: Called with the error of each bad line; the line is then skipped.
    """
    if torn not in ("raise", "skip"):
        raise ConfigError(f"torn must be 'raise' or 'skip', got {torn!r}")
    return _read(Path(path), torn == "skip", on_bad)


def _read(
    path: Path, skip_torn: bool, on_bad: Callable[[RecordError], object] | None
) -> Iterator[Trajectory]:
    for where, line in _lines(path, skip_torn):
        try:
            episode = Trajectory.from_json(line.decode())
        except (RecordError, UnicodeDecodeError) as error:
            if not line.endswith(b"\n") and not _is_json(line):
                _handle_torn(where, skip_torn, error)
                return
            bad = RecordError(f"{where}: {error}")
            if on_bad is None:
                raise bad from error
            on_bad(bad)
        else:
            yield episode


def _lines(path: Path, skip_torn: bool) -> Iterator[tuple[str, bytes]]:
    """Yield each line that is not blank, with its file and line number for errors."""
    with open_file(path) as file:
        for number in itertools.count(1):
            where = f"{path}, line {number}"
            try:
                line = file.readline(MAX_RECORD_BYTES + 1)
            except EOFError as error:
                _handle_torn(where, skip_torn, error)
                return
            except (gzip.BadGzipFile, zlib.error) as error:
                raise RecordError(f"{where}: the gzip data is damaged: {error}") from error
            if len(line) > MAX_RECORD_BYTES:
                raise RecordError(f"{where}: a record has at most {MAX_RECORD_BYTES >> 20} MiB")
            if not line:
                return
            if line.strip():
                yield where, line


def _handle_torn(where: str, skip: bool, error: Exception) -> None:
    cut = f"{where}: the record is cut off; its writer was killed in the middle of it"
    if not skip:
        raise RecordError(f'{cut}; pass torn="skip" to read the rest') from error
    _log.warning("%s; skipped", cut)


def write_episodes(path: str | os.PathLike[str], episodes: Iterable[Trajectory]) -> int:
    """Write ``episodes`` to ``path`` and return how many there were.

    An existing file is replaced only after all episodes are written.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    count = 0
    try:
        with part.open("wb") as file:
            for episode in episodes:
                file.write(_line(episode, compress=path.suffix == ".gz"))
                count += 1
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


class EpisodeWriter:
    """Appends episodes to a file; ``write`` returns when the episode is on disk.

    If a killed writer left an incomplete record at the end, it is removed when the file is opened;
    otherwise the next record would be unreadable, too.

    Args:
        path: A ``.jsonl`` or ``.jsonl.gz`` file; file and folder are created if missing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._compress = self.path.suffix == ".gz"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: one record is one write, and nothing is left to lose when we are killed.
        self._file = open(self.path, "ab+", buffering=0)  # noqa: SIM115 - close() closes it
        try:
            self._cut_torn_end()
        except BaseException:
            self._file.close()
            raise

    def write(self, episode: Trajectory) -> None:
        """Append one episode; if it cannot be written, the file does not change."""
        data = memoryview(_line(episode, self._compress))
        end = self._file.seek(0, os.SEEK_END)
        try:
            while data:
                data = data[self._file.write(data) :]
        except BaseException:  # a full disk or Ctrl-C must not leave half a record
            with suppress(OSError):
                self._file.truncate(end)
            raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cut_torn_end(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        whole, head, tail = (_scan_gzip if self._compress else _scan_plain)(self._file)
        if head != _MARK[: len(head)]:
            raise RecordError(
                f"{self.path} is not a file of episodes: it does not begin with a record; "
                "choose another path"
            )
        if whole < size:
            _log.warning("%s ends in half a record (%d bytes); cut off", self.path, size - whole)
            self._file.truncate(whole)
        if tail not in (b"", b"\n"):
            self._file.seek(0, os.SEEK_END)
            self._file.write(gzip.compress(b"\n", mtime=0) if self._compress else b"\n")


def _line(episode: Trajectory, compress: bool) -> bytes:
    line = episode.to_json().encode("ascii") + b"\n"
    return gzip.compress(line, compresslevel=6, mtime=0) if compress else line


def open_file(path: Path) -> BinaryIO:
    """Open a file of episodes for reading; a ``.gz`` file is decompressed."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


# Both scans return where the last whole record ends, how the file begins, and its last byte.


def _scan_plain(file: BinaryIO) -> tuple[int, bytes, bytes]:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(min(len(_MARK), size))
    last = b""
    while len(last) < size and b"\n" not in last:
        end = size - len(last)
        file.seek(max(0, end - _BLOCK))
        last = file.read(min(_BLOCK, end)) + last
    rest = last.rpartition(b"\n")[2]
    if rest and not _is_json(rest):
        return size - len(rest), head, b""
    return size, head, last[-1:]


def _scan_gzip(file: BinaryIO) -> tuple[int, bytes, bytes]:
    file.seek(0)
    whole = position = 0
    head = last = tail = b""
    member = zlib.decompressobj(wbits=31)
    try:
        while block := file.read(_BLOCK):
            position += len(block)
            while block:
                data = member.decompress(block)
                head = (head + data[: len(_MARK)])[: len(_MARK)]
                last = data[-1:] or last
                if not member.eof:
                    break
                block = member.unused_data
                whole, tail = position - len(block), last
                member = zlib.decompressobj(wbits=31)
    except zlib.error as error:
        raise RecordError(f"{file.name} is damaged or is not gzip: {error}") from error
    return whole, head, tail
