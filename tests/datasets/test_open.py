"""Rows of any object: lists, data sets, streams, dictionaries of splits."""

import itertools
from collections import UserList

import pytest

from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.datasets.files import open_source
from llm_gym.datasets.graders import get_grader
from llm_gym.datasets.rows import ColumnNames
from llm_gym.datasets.table import ReadOptions, open_table
from tests.datasets.rows import PLAN, ROWS, as_jsonl, everything


class LikeADataset:
    """What ``datasets.Dataset`` and ``torch.utils.data.Dataset`` have in common."""

    def __len__(self):
        return len(ROWS)

    def __getitem__(self, at):
        return ROWS[range(len(ROWS))[at]]


@pytest.mark.parametrize("rows", [ROWS, tuple(ROWS), LikeADataset(), iter(ROWS), (r for r in ROWS)])
def test_rows_may_come_as_any_object(rows):
    source = open_source(rows)
    assert everything(source) == ROWS


def test_a_real_dataset_object_is_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    assert everything(open_source(datasets.Dataset.from_list(ROWS))) == ROWS
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)})
    assert len(open_table(splits, PLAN)) == len(ROWS)
    stream = datasets.Dataset.from_list(ROWS).to_iterable_dataset()
    assert everything(open_source(stream, limit=3)) == ROWS[:3]


def test_an_endless_iterable_is_read_up_to_the_limit():
    endless = ({"prompt": f"{n}?", "answer": n} for n in itertools.count())
    table = open_table(endless, ReadOptions(ColumnNames(), get_grader("exact"), limit=4))
    assert [table.fetch(n).answers[0] for n in range(len(table))] == [0, 1, 2, 3]


def test_a_limit_holds_for_each_split_of_a_dictionary(tmp_path):
    dataset = {"train": ROWS[:4], "test": as_jsonl(tmp_path / "a.jsonl", ROWS[4:])}
    table = open_table(dataset, ReadOptions(ColumnNames(), get_grader("exact"), limit=2))
    assert [table.fetch(n).answers[0] for n in range(len(table))] == ["0", "1", "4", "5"]
    assert (table.count("train"), table.count("test")) == (2, 2)


@pytest.mark.parametrize("dataset", [3, object(), {}, {"prompt": ["a"], "answer": ["b"]}])
def test_an_object_without_rows_is_refused(dataset):
    with pytest.raises(ConfigError, match=r"must be a path, rows|must have splits as keys"):
        open_source(dataset, split_column="split")


def test_a_bad_row_of_an_object_is_named_with_its_index():
    with pytest.raises(RecordError, match=r"row 1.*'answer'"):
        open_table([ROWS[0], {"prompt": "x"}], PLAN)
    with pytest.raises(RecordError, match="dev rows, row 0"):
        open_table({"train": ROWS, "dev": [3]}, PLAN)
    by_column = type("Frame", (UserList,), {"__getitem__": lambda self, at: {}[at]})(ROWS)
    with pytest.raises(RecordError, match=r"row 0: .*by its number \(KeyError: 0\)"):
        open_table(by_column, PLAN)
