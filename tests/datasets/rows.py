"""Seven rows, a plan to read them with, and files that hold them."""

import json

from llm_gym.datasets.graders import get_grader
from llm_gym.datasets.rows import ColumnNames
from llm_gym.datasets.table import ReadOptions

ROWS = [{"prompt": f"Say {n}.", "answer": str(n)} for n in range(7)]
PLAN = ReadOptions(ColumnNames(), get_grader("exact"))


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def as_jsonl(path, rows=ROWS):
    return write(path, map(json.dumps, rows))


def everything(source):
    return [source.data(at) for at in range(len(source))]
