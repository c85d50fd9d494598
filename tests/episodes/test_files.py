"""Files of episodes: whole lines, even where the writer is killed or the disk is full."""

import errno
import gzip
import json
import logging
import re
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.episodes import EpisodeWriter, Trajectory, read_episodes, write_episodes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "episodes.jsonl"


@pytest.fixture(params=[".jsonl", ".jsonl.gz"])
def any_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A plain file, then a compressed one."""
    return tmp_path / f"episodes{request.param}"


def episode(number: int) -> Trajectory:
    return Trajectory(episode_id=number, states=["a\n\u2028\ud800", "b"], actions=[f"go {number}"])


def ids(path: Path, **options: Any) -> list[Any]:
    return [one.episode_id for one in read_episodes(path, **options)]


def test_episodes_are_read_back_in_order(any_path: Path) -> None:
    assert write_episodes(any_path, (episode(n) for n in range(3))) == 3
    assert list(read_episodes(any_path)) == [episode(n) for n in range(3)]
    assert (any_path.read_bytes()[:2] == b"\x1f\x8b") == (any_path.suffix == ".gz")


def test_a_writer_appends_across_openings(any_path: Path) -> None:
    path = any_path.parent / "new" / "folder" / any_path.name
    for n in range(3):
        with EpisodeWriter(path) as writer:
            writer.write(episode(n))
            assert ids(path) == list(range(n + 1)), "on disk before the writer is closed"
    writer.close()


def test_a_compressed_file_is_stock_gzip_and_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    for path in (first, second):
        write_episodes(path, [episode(0), episode(1)])
    assert first.read_bytes() == second.read_bytes()
    lines = gzip.decompress(first.read_bytes()).splitlines()
    assert [json.loads(line)["episode_id"] for line in lines] == [0, 1]


def test_reading_is_lazy(path: Path) -> None:
    write_episodes(path, [episode(0)])
    with path.open("a") as file:
        file.write("not a record\n")
    reader = read_episodes(path)
    assert next(reader).episode_id == 0
    with pytest.raises(RecordError):
        next(reader)


def test_an_empty_file_and_blank_lines_hold_no_episodes(path: Path) -> None:
    path.write_bytes(b"")
    assert ids(path) == []
    path.write_bytes(b"\n" + episode(1).to_json().encode() + b"\n  \n")
    assert ids(path) == [1]


GOOD = episode(0).to_json().encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (GOOD + b"\n\n" + GOOD + b'\n{"schema": 1, "actions": 3}\n' + GOOD, "line 4: actions must"),
        (b"\xff\xfe\n", "line 1: .*decode"),
        (b'{"schema": 99}', "line 1: .*schema 99"),
    ],
    ids=["a wrong field", "no text", "a newer schema"],
)
def test_a_bad_line_is_named_with_file_number_and_reason_and_never_skipped(
    path: Path, content: bytes, reason: str
) -> None:
    path.write_bytes(content)
    with pytest.raises(RecordError, match=f"{re.escape(str(path))}, {reason}"):
        ids(path, torn="skip")


def test_an_unknown_value_of_torn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="torn"):
        read_episodes(tmp_path / "x", torn="ignore")  # type: ignore[arg-type]


def test_a_file_cut_anywhere_is_detected_skipped_and_repaired(
    any_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_episodes(any_path, [episode(0)])
    whole = any_path.stat().st_size
    write_episodes(any_path, [episode(0), episode(1)])
    data = any_path.read_bytes()
    gz = any_path.suffix == ".gz"
    # A plain record without its newline is whole, so the last byte but one is the last cut; one
    # lone byte of a gzip header is reported as damage.
    for cut in range(whole + 1 + gz, len(data) - (not gz)):
        any_path.write_bytes(data[:cut])
        # Where only the gzip checksum is missing, the record before it is read and is right.
        complete = gz and zlib.decompressobj(31).decompress(data[whole:cut]).endswith(b"\n")
        line = 3 if complete else 2
        with pytest.raises(RecordError, match=rf'line {line}: the record is cut off; .*"skip"'):
            ids(any_path)
        caplog.clear()
        assert ids(any_path, torn="skip") == ([0, 1] if complete else [0])
        assert f"line {line}" in caplog.text
        caplog.clear()
        with EpisodeWriter(any_path) as writer:
            assert f"ends in half a record ({cut - whole} bytes)" in caplog.text
            assert [entry.levelno for entry in caplog.records] == [logging.WARNING]
            assert any_path.stat().st_size == whole
            writer.write(episode(2))
        assert ids(any_path) == [0, 2]


def test_the_first_record_may_be_the_torn_one(any_path: Path) -> None:
    for cut in (1, 5, 30):
        write_episodes(any_path, [episode(0)])
        any_path.write_bytes(any_path.read_bytes()[:cut])
        with EpisodeWriter(any_path) as writer:
            writer.write(episode(1))
        assert ids(any_path) == [1]


def test_a_last_record_that_lacks_only_its_newline_is_kept(path: Path, tmp_path: Path) -> None:
    path.write_text(episode(0).to_json())
    assert ids(path) == [0]
    with EpisodeWriter(path) as writer:
        writer.write(episode(1))
    assert ids(path) == [0, 1]
    other = tmp_path / "episodes.jsonl.gz"
    other.write_bytes(gzip.compress(episode(0).to_json().encode()))
    with EpisodeWriter(other) as writer:
        writer.write(episode(1))
    assert ids(other) == [0, 1]


def test_a_long_torn_record_is_cut_off_whole(path: Path) -> None:
    write_episodes(path, [episode(0), Trajectory(actions=["x" * 300_000])])
    path.write_bytes(path.read_bytes()[:-3])
    EpisodeWriter(path).close()
    assert ids(path) == [0]


_ENDLESS = """
import sys
from llm_gym.episodes import EpisodeWriter, Trajectory
with EpisodeWriter(sys.argv[1]) as writer:
    for number in range(10**9):
        writer.write(Trajectory(episode_id=number, actions=["x" * 50_000]))
        print(number, flush=True)
"""


def test_a_writer_that_is_killed_loses_nothing_it_had_written(any_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _ENDLESS, str(any_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(20):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    read = ids(any_path, torn="skip")
    assert read == list(range(len(read)))
    assert last in read
    with EpisodeWriter(any_path) as writer:
        writer.write(Trajectory(episode_id="next"))
    assert ids(any_path) in ([*read, "next"], [*read[:-1], "next"])


class FullDisk:
    """Takes half of what it is given, then nothing."""

    def __init__(self, file: Any) -> None:
        self.file, self.full = file, False

    def write(self, data: Any) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.full = True
        written: int = self.file.write(data[: len(data) // 2])
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_a_full_disk_leaves_whole_records(any_path: Path) -> None:
    with EpisodeWriter(any_path) as writer:
        writer.write(episode(0))
        size, file = any_path.stat().st_size, writer._file
        writer._file = FullDisk(file)  # type: ignore[assignment]
        with pytest.raises(OSError, match="No space left"):
            writer.write(episode(1))
        assert any_path.stat().st_size == size
        writer._file = file
        writer.write(episode(2))
    assert ids(any_path) == [0, 2]


def test_a_write_that_comes_up_short_is_continued(tmp_path: Path) -> None:
    class Sips(FullDisk):
        def write(self, data: Any) -> int:
            written: int = self.file.write(data[:7])
            return written

    with EpisodeWriter(tmp_path / "episodes.jsonl") as writer:
        writer._file = Sips(writer._file)  # type: ignore[assignment]
        writer.write(episode(0))
    assert ids(tmp_path / "episodes.jsonl") == [0]


def test_a_record_that_cannot_be_written_leaves_the_file_alone(path: Path) -> None:
    with EpisodeWriter(path) as writer:
        writer.write(episode(0))
        with pytest.raises(RecordError, match="rewards"):
            writer.write(Trajectory(rewards=[1.0]))
        writer.write(episode(1))
    assert ids(path) == [0, 1]


def test_an_old_file_stays_when_its_replacement_fails(path: Path, tmp_path: Path) -> None:
    write_episodes(path, [episode(0)])

    def failing() -> Iterator[Trajectory]:
        yield episode(1)
        raise RuntimeError("the run ended")

    with pytest.raises(RuntimeError, match="the run ended"):
        write_episodes(path, failing())
    assert ids(path) == [0]
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_can_be_filtered_into_itself(path: Path) -> None:
    write_episodes(path, [episode(n) for n in range(4)])
    write_episodes(path, (one for one in read_episodes(path) if one.episode_id in (1, 3)))
    assert ids(path) == [1, 3]


@pytest.mark.parametrize("content", [b"Dear diary,\nnothing of note", b'{"name": "config"}'])
def test_a_writer_refuses_a_file_of_another_kind(tmp_path: Path, content: bytes) -> None:
    for name, data in (("a.jsonl", content), ("a.jsonl.gz", gzip.compress(content))):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(RecordError, match="episodes"):
            EpisodeWriter(path)
        assert path.read_bytes() == data


def test_damage_inside_a_compressed_file_is_never_skipped(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl.gz"
    write_episodes(path, [episode(n) for n in range(3)])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(RecordError, match=r"line [123]: "):
        ids(path, torn="skip")
    path.write_bytes(b"plain text")
    with pytest.raises(RecordError, match="line 1"):
        ids(path)
    with pytest.raises(RecordError, match="gzip"):
        EpisodeWriter(path)
