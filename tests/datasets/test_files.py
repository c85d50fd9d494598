"""Readers: every kind of file and object, streaming, and a name for every bad line."""

import csv
import gzip
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.datasets import files
from llm_gym.datasets.files import open_source
from tests.datasets.rows import ROWS, as_jsonl, everything


def as_csv(path, rows=ROWS, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_every_kind_of_file_gives_the_same_rows(tmp_path):
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in ROWS)
    paths = [
        as_jsonl(tmp_path / "a.jsonl"),
        as_jsonl(tmp_path / "a.ndjson"),
        tmp_path / "a.jsonl.gz",
        as_csv(tmp_path / "a.csv"),
        as_csv(tmp_path / "A.TSV", delimiter="\t"),
    ]
    for path in paths:
        assert everything(open_source(path)) == ROWS, path


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)


@given(st.lists(st.fixed_dictionaries({"a": TEXTS, "b": TEXTS}), min_size=1, max_size=5))
def test_any_text_comes_back(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    for path in (as_jsonl(folder / "a.jsonl", rows), as_csv(folder / "a.csv", rows)):
        assert everything(open_source(path)) == rows


def test_a_cell_may_span_lines_and_the_next_row_keeps_its_number(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('prompt,answer\n"one\ntwo, ""three""\n",1\n\nfour,4\n')
    source = open_source(path)
    assert [source.where(at) for at in range(2)] == [f"{path}, row 1", f"{path}, row 2"]
    assert source.data(0) == {"prompt": 'one\ntwo, "three"\n', "answer": "1"}
    path.write_text('prompt,answer\n"one\ntwo, ""three""\n",1\n\nfour\n')
    with pytest.raises(RecordError, match=r"line 6: .*1 cells"):
        open_source(path)


def test_blank_lines_and_a_byte_order_mark_are_passed_over(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}')
    source = open_source(path)
    assert everything(source) == [{"a": 1}, {"a": 2}]
    assert [source.where(at) for at in range(2)] == [f"{path}, line 1", f"{path}, line 4"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", b'{"a": 1}\n{"a": \n', r"line 2: .*Expecting value at character"),
        ("a.jsonl", b'{"a": 1}\n\n\xff\n', "line 3: .*utf-8"),
        ("a.jsonl", b"[" * 100_000 + b"\n", "line 1: .*recursion"),
        ("a.jsonl", b'{"a": ' + b"9" * 5000 + b"}\n", "line 1: "),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\nnope\n', mtime=0), "line 2"),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 1000, mtime=0)[:-20], ""),
        ("a.csv", b"", "line 1: .*names of its columns"),
        ("a.csv", b"a,b,a\n1,2,3\n", "line 1: .*'a'"),
        ("a.csv", b"a," * 20_000 + b"\n", "line 1: .*10000"),
        ("a.csv", b"a,b\n1,2\n3\n", "line 3: .*1 cells for 2 columns"),
        ("a.csv", b'a,b\n1,2\n3,"4\n5,6\n', "line 3: .*unexpected end of data"),
        ("a.csv", b'a,b\n1,2\n"3"x,4\n', "line 3: .*',' expected after '\"'"),
        ("a.csv", b"a,b\n1,\xff\n", "line 2: .*utf-8"),
        ("a.csv", b'a,b\n1,"' + b"x" * 200_000 + b'"\n', "line 2: .*field larger"),
    ],
)
def test_a_bad_line_is_named(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_bytes(text)
    with pytest.raises(RecordError, match=rf"{re.escape(name)}.*{message}"):
        everything(open_source(path))


def test_a_line_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n"' + b"x" * (2 << 20) + b'"\n')
    with pytest.raises(RecordError, match="line 2"):
        everything(open_source(path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, r"ends in \.jsonl.*load_dataset") for name in ("openai/gsm8k", "a.json", "rows")),
        ("nowhere.jsonl", r"no file 'nowhere\.jsonl'"),
        ("a" * 5000 + ".jsonl", "no file 'aaa"),
        ("a\x00.jsonl", "no file"),
    ],
)
def test_an_unknown_kind_of_file_is_refused_with_a_remedy(name, message):
    with pytest.raises(ConfigError, match=message):
        open_source(name)


def test_a_decompression_bomb_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 20)
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n' * (1 << 20)))
    unpacked = []
    plain = files._lines

    def counted(file, name):
        for line in plain(file, name):
            unpacked.append(len(line))
            yield line

    monkeypatch.setattr(files, "_lines", counted)
    with pytest.raises(RecordError, match="unpacks"):
        open_source(tmp_path / "bomb.jsonl.gz")
    assert sum(unpacked) < 4 << 20
