"""Run folders, folders of records and single files; metrics that grow and that are rewritten."""

import gzip
import json
import os

import pytest

from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.episodes import EpisodeWriter, write_episodes
from llm_gym.view import sources
from llm_gym.view.api import Api, dump
from llm_gym.view.export import export
from llm_gym.view.sources import EpisodeIndex, ViewSource, open_sources
from tests.view.records import METRICS, hostile, make_run, played, with_tokens


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.jsonl"


def test_a_run_has_its_files_in_the_order_of_time(tmp_path):
    run = make_run(tmp_path / "run")
    for name in ("eval-000002", "train-000011", "eval-000001"):
        write_episodes(run / f"episodes/{name}.jsonl", [played(1)])
    source = ViewSource(run)
    names = "before eval-000001 train-000001 eval-000002 train-000011 after"
    assert [file.label for file in source.files] == names.split()
    assert [file.iteration for file in source.files] == [None, 1, 1, 2, 11, None]
    assert source.config() == {"training.gamma": 0.9}
    assert source.metrics.rows == METRICS
    runs = [make_run(tmp_path / name / "run") for name in "ab"]
    assert [source.name for source in open_sources(runs)] == [str(run) for run in runs]


def test_a_file_that_appears_later_keeps_the_numbers_of_the_others(tmp_path):
    source = ViewSource(make_run(tmp_path / "run"))
    before, version = [file.path for file in source.files], source.version
    write_episodes(tmp_path / "run/episodes/eval-000001.jsonl", [played(1)])
    source.refresh()
    assert [file.path for file in source.files][: len(before)] == before
    assert source.files[-1].path.name == "eval-000001.jsonl"
    assert source.version == version + 1


def test_metrics_follow_a_growing_and_a_shortened_file(tmp_path):
    run = make_run(tmp_path / "run")
    metrics = ViewSource(run).metrics
    generation = metrics.generation
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 3, "reward/mean": NaN, "name": "x"}\n{"iteration": 4')
    metrics.refresh()
    assert metrics.rows == [*METRICS, {"iteration": 3}]  # no NaN, no text, no half a row
    assert metrics.generation == generation
    (run / "metrics.jsonl").write_text(json.dumps(METRICS[0]) + "\n")
    metrics.refresh()
    assert metrics.rows == METRICS[:1]
    assert metrics.generation == generation + 1


def test_a_folder_of_eval_records_and_a_single_file_are_sources_too(tmp_path):
    write_episodes(tmp_path / "records/llm_gym_Guess-v0.jsonl.gz", [played(1)])
    for place in (tmp_path / "records", tmp_path / "records/llm_gym_Guess-v0.jsonl.gz"):
        [file] = ViewSource(place).files
        assert file.label == "llm_gym_Guess-v0"
        assert [row.seed for row in file.rows] == ["1"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "a.jsonl holds no episodes: it is empty"),
        ("nonsense\n", "a.jsonl holds no episodes: line 1: the record is not JSON"),
        (None, "there is no such file or folder"),
    ],
)
def test_a_file_without_episodes_is_refused_with_the_reason(path, content, why):
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=why):
        ViewSource(path)


def indexed(path, *episodes):
    """Return the index of a file, into which ``episodes`` are written first."""
    if episodes:
        write_episodes(path, episodes)
    found = EpisodeIndex(path)
    found.refresh()
    return found


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_record_comes_back_byte_by_byte(tmp_path, name):
    episodes = [played(1), with_tokens(), hostile()]
    found = indexed(tmp_path / name, *episodes)
    assert [found.raw(line).decode() for line in (1, 2, 3)] == [e.to_json() for e in episodes]
    assert len(found.rows) == 3


def test_a_row_shows_the_figures_of_its_record(path):
    row = indexed(path, with_tokens()).rows[0]
    assert (row.success, row.stop, row.reward, row.turns, row.tokens) == (True, "won", 1.25, 2, 6)
    assert (row.group, row.seed, row.snippet) == ("0", None, "go home")
    episode = played(0, ["no idea", "1000", "1"], max_turns=3)
    assert indexed(path, episode).rows[0].invalid == 2


def test_a_growing_file_is_read_from_where_the_last_reading_ended(path):
    with EpisodeWriter(path) as writer:
        writer.write(played(1))
        found = indexed(path)
        first = found.rows[0]
        writer.write(played(2))
        assert found.refresh()
        assert not found.refresh()
    assert [row.seed for row in found.rows] == ["1", "2"]
    assert found.rows[0] is first  # it was not read a second time
    assert found.raw(2).decode() == played(2).to_json()


def test_half_a_record_is_shown_once_it_is_complete(path):
    line = played(1).to_json() + "\n"
    path.write_text(line + line[:50])
    found = indexed(path)
    assert (len(found.rows), found.problems) == (1, [])
    path.write_text(line + line)
    found.refresh()
    assert (len(found.rows), found.problems) == (2, [])


def test_bad_lines_are_listed_and_the_rest_is_shown(path):
    line = played(1).to_json() + "\n"
    path.write_bytes(b"nonsense\n" + line.encode() + b"\xff\xfe\n\n" + b'{"schema": 99}\n')
    found = indexed(path)
    assert [row.line for row in found.rows] == [2]
    assert [problem.split(":")[0] for problem in found.problems] == ["line 1", "line 3", "line 5"]
    with pytest.raises(RecordError, match="line 1"):
        found.raw(1)


def test_a_line_that_is_too_long_is_left_out_and_the_next_is_read(path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_LINE", 5000)
    line = played(1).to_json() + "\n"
    assert len(line) < 5000
    path.write_text(json.dumps({"schema": 1, "states": ["x" * 20_000]}) + "\n" + line)
    found = indexed(path)
    assert [row.line for row in found.rows] == [2]
    assert found.problems == ["line 1: longer than 5000 bytes"]
    assert found.raw(2).decode() == line.strip()


def test_a_file_of_too_many_episodes_is_shown_in_part(path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_EPISODES", 2)
    found = indexed(path, *map(played, range(4)))
    assert len(found.rows) == 2
    assert found.problems == ["only the first 2 episodes are shown"]


def test_a_replaced_file_is_read_again_and_a_deleted_one_is_empty(path):
    found = indexed(path, played(1), played(2))
    write_episodes(path, [played(3)])
    found.refresh()
    assert [row.seed for row in found.rows] == ["3"]
    path.unlink()
    assert found.refresh()
    assert found.rows == []


def test_search_ignores_case_and_field_names(path):
    found = indexed(path, with_tokens(), played(1))
    assert found.search("GO NORTH") == [1]
    assert found.search("schema") == []  # a name of the file's, not a word of the text


def test_a_search_reads_a_compressed_file_once(tmp_path, monkeypatch):
    found = indexed(tmp_path / "a.jsonl.gz", *map(played, range(30)))
    opened, really = [], sources.open_file
    monkeypatch.setattr(sources, "open_file", lambda path: opened.append(1) or really(path))
    assert found.search("guess") == [row.line for row in found.rows]
    assert len(opened) == 1


def test_records_that_change_during_a_search_are_not_found(path):
    found = indexed(path, played(1), played(2))
    path.write_bytes(b'["x", 1]\n\xff')
    assert found.search("guess") == []
    with pytest.raises(RecordError):
        found.raw(1)


def record(**changes):
    return json.dumps(json.loads(played(1).to_json()) | changes)


def damaged(data, at):
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


WHOLE = gzip.compress((record() + "\n").encode() * 50, mtime=0)
NAN = float("nan")
FOLDERS = {
    "a number that no float holds": {"metrics.jsonl": b'{"a": 1%s, "b": 2}\n' % (b"0" * 400)},
    "no numbers in the settings": {"config.json": b'{"a": NaN, "b": {"c": -Infinity}}'},
    "deep settings": {"config.json": b'{"a":' * 900 + b"1" + b"}" * 900},
    "settings that are a list": {"config.json": b"[1]"}, "half of them": {"config.json": b"{"},
    "deeper settings": {"config.json": b"[" * 100_000}, "a zero": {"config.json": b"\x00"},
    "no numbers in a record": {"a.jsonl": record(extra={"a": NAN, "b": [float("inf")]}).encode()},
    "a damaged archive": {"a.jsonl.gz": damaged(WHOLE, 60)},
    "an archive that is damaged late": {"a.jsonl.gz": damaged(WHOLE, len(WHOLE) - 40)},
    "an archive that is cut off": {"a.jsonl.gz": WHOLE[:-30]},
    "no archive": {"a.jsonl.gz": b"hello"},
    "half a row": {"metrics.jsonl": b'{"a": 1}\n{"a": 2', "a.jsonl": record().encode()[:-40]},
    "folders in place of files": {
        "metrics.jsonl": None, "config.json": None, "a.jsonl": None, "warm_start.jsonl": None,
    },
    "nothing": {},
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_with_damaged_files_can_be_viewed_and_exported(tmp_path, name):
    for file, content in FOLDERS[name].items():
        if content is None:
            (tmp_path / file).mkdir()
        else:
            (tmp_path / file).write_bytes(content)
    sources = open_sources([tmp_path])
    if name == "a number that no float holds":
        assert sources[0].metrics.rows == [{"b": 2}]
    if "settings" in name and "no numbers" not in name and name != "deep settings":
        assert sources[0].config() == {}
    api, query = Api(sources), {"source": "0", "from": "0", "words": "a"}
    for question in ("sources", "metrics", "episodes", "search"):
        assert strictly(dump(api.ask(question, query))) is not None
    for number, file in enumerate(sources[0].files):
        for row in file.rows:
            strictly(api.episode({"source": "0", "file": str(number), "line": str(row.line)}))
    assert b"<script" in export(sources)


def test_named_pipes_in_a_folder_do_not_block(tmp_path):
    for name in ("metrics.jsonl", "warm_start.jsonl", "config.json", "a.jsonl"):
        os.mkfifo(tmp_path / name)
    source = ViewSource(tmp_path)
    assert (source.metrics.rows, source.config(), source.files) == ([], {}, [])


def strictly(text):
    """Read JSON as a browser does."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_episodes_before_the_damage_of_an_archive_are_shown(tmp_path):
    whole = b"".join(gzip.compress((record(seed=at) + "\n").encode(), mtime=0) for at in range(3))
    last = len(gzip.compress((record(seed=2) + "\n").encode(), mtime=0))
    (tmp_path / "a.jsonl.gz").write_bytes(damaged(whole, len(whole) - last + 30))
    index = open_sources([tmp_path])[0].files[0]
    assert [row.seed for row in index.rows][:2] == ["0", "1"]
    assert index.problems
