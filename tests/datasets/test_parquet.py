"""Parquet: rows in batches, and the error without pyarrow."""

import json
import sys
import types

import pytest

from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.datasets.files import open_source
from llm_gym.datasets.table import open_table
from tests.datasets.rows import PLAN, ROWS, as_jsonl, everything


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match="pip install pyarrow"):
        open_source(tmp_path / "a.parquet")


class FakeParquetFile:
    """Reads JSON lines, with the interface of pyarrow's."""

    def __init__(self, path):
        self.rows = [json.loads(line) for line in path.read_text().splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def iter_batches(self, batch_size):
        assert batch_size > 1
        for at in range(0, len(self.rows), 2):
            yield types.SimpleNamespace(to_pylist=lambda at=at: self.rows[at : at + 2])


@pytest.fixture
def fake_pyarrow(monkeypatch):
    pyarrow, parquet = types.ModuleType("pyarrow"), types.ModuleType("pyarrow.parquet")
    pyarrow.ArrowException = type("ArrowException", (Exception,), {})
    pyarrow.parquet, parquet.ParquetFile = parquet, FakeParquetFile
    monkeypatch.setitem(sys.modules, "pyarrow", pyarrow)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)


def test_parquet_rows_come_in_batches_and_are_named_from_zero(tmp_path, fake_pyarrow):
    path = as_jsonl(tmp_path / "a.parquet", [*ROWS, {"prompt": "", "answer": "x"}])
    source = open_source(path)
    assert everything(source)[:-1] == ROWS
    with pytest.raises(RecordError, match=r"a\.parquet, row 7: 'prompt'"):
        open_table(path, PLAN)


def test_real_parquet_is_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"prompt": [{"role": "user", "content": row["prompt"]}], **row} for row in ROWS]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=3)
    assert everything(open_source(tmp_path / "a.parquet")) == rows
    (tmp_path / "b.parquet").write_bytes(b"no")
    with pytest.raises(RecordError, match=r"b\.parquet"):
        open_source(tmp_path / "b.parquet")
