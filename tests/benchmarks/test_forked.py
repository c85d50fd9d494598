"""Jobs as forks: one import for all of them, memory and failures of their own."""

import importlib
import os
import sys
from pathlib import Path

import pytest

MODULE = """
import os
with open({log!r}, "a") as file:
    file.write("imported\\n")
seen = []

def result(arguments):
    seen.append(arguments)
    if arguments[0] == "fail":
        raise ValueError("no memory left")
    if arguments[0] == "die":
        os._exit(3)
    if arguments[0] == "hang":
        while True:
            pass
    return {{"seen": seen, "threads": os.environ["OMP_NUM_THREADS"], "process": os.getpid()}}
"""


@pytest.fixture
def forked(monkeypatch, tmp_path):
    (tmp_path / "forked_job.py").write_text(MODULE.format(log=str(tmp_path / "log")))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    module = importlib.import_module("forked")
    server = module.forkserver._forkserver  # ends with the process otherwise
    server._stop()
    yield module
    server._stop()
    sys.modules.pop("forked", None)


def test_jobs_are_forks_of_one_import_with_a_thread_and_a_memory_of_their_own(forked, tmp_path):
    before = os.environ.get("PYTHONPATH")
    lanes, run = importlib.import_module("lanes"), forked.Forks("forked_job")
    row = run(lanes.Job("a", ["first"]), 60)
    other = run(lanes.Job("b", ["second"]), 60)
    assert "error" not in row, row
    assert (row["seen"], other["seen"]) == ([["first"]], [["second"]])
    assert len({row["process"], other["process"], os.getpid()}) == 3
    assert row["threads"] == "1"
    assert os.environ.get("PYTHONPATH") == before
    assert (tmp_path / "log").read_text() == "imported\n"
    assert run(lanes.Job("c", ["fail"]), 60) == {"error": "ValueError: no memory left"}
    assert run(lanes.Job("d", ["die"]), 60) == {"error": "exit code 3"}
    assert run(lanes.Job("e", ["hang"]), 0.3) == {"error": "stopped after 0 s"}
