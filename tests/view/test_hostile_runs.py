"""Run folders of strangers and of accidents: whatever lies in them, the page opens and exports."""

import gzip
import json

import pytest

from llm_gym.view.api import Api, dump
from llm_gym.view.export import export
from llm_gym.view.sources import open_sources
from tests.view.records import played


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
def test_a_folder_with_anything_in_it_can_be_seen_and_exported(tmp_path, name):
    for file, content in FOLDERS[name].items():
        if content is None:
            (tmp_path / file).mkdir()
        else:
            (tmp_path / file).write_bytes(content)
    sources = open_sources([tmp_path])
    api, query = Api(sources), {"source": "0", "from": "0", "words": "a"}
    for question in ("sources", "metrics", "episodes", "search"):
        assert strictly(dump(api.ask(question, query))) is not None
    for number, file in enumerate(sources[0].files):
        for row in file.rows:
            strictly(api.episode({"source": "0", "file": str(number), "line": str(row.line)}))
    assert b"<script" in export(sources)


def strictly(text):
    """Read JSON as a browser does."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_rows_beside_a_number_that_no_float_holds_are_kept(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"a": 1%s, "b": 2}\n{"b": 3}\n' % (b"0" * 400))
    assert open_sources([tmp_path])[0].metrics.rows == [{"b": 2}, {"b": 3}]


def test_episodes_before_the_damage_of_an_archive_are_shown_and_it_is_named(tmp_path):
    whole = b"".join(gzip.compress((record(seed=at) + "\n").encode(), mtime=0) for at in range(3))
    last = len(gzip.compress((record(seed=2) + "\n").encode(), mtime=0))
    (tmp_path / "a.jsonl.gz").write_bytes(damaged(whole, len(whole) - last + 30))
    index = open_sources([tmp_path])[0].files[0]
    assert [row.seed for row in index.rows][:2] == ["0", "1"]
    assert index.problems
