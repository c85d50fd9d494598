"""What scripts share: jobs in lanes and forks."""

import json
import os
import sys
from time import monotonic

import pytest

from benchmarks.lib import lanes

FAILS = "import sys; sys.exit('no memory left')"
WORKS = "print('loading'); print('{\"success\": 0.5}')"
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


def job(key, program, timeout=60.0):
    return lanes.Job(key, [sys.executable, "-c", program], timeout)


def rows(path):
    return json.loads(path.read_text())["rows"]


def test_a_job_that_fails_leaves_the_others_alone_and_is_done_again(tmp_path, capsys):
    path = tmp_path / "result.json"
    results = lanes.Results(path, {"command": "test"})
    lanes.work([job("bad", FAILS), job("good", WORKS)], results, lanes=2)
    assert rows(path)["good"]["success"] == 0.5
    assert rows(path)["bad"]["error"] == "exit code 1: no memory left"
    again = lanes.Results(path, {"command": "test"})
    lanes.work([job("bad", WORKS), job("good", FAILS)], again, lanes=1)
    assert {key: row["success"] for key, row in rows(path).items()} == {"bad": 0.5, "good": 0.5}
    assert len(capsys.readouterr().out.splitlines()) == 3
    late = lanes.Results(tmp_path / "late.json", {})
    lanes.work([job("late", WORKS)], late, lanes=1, deadline=monotonic())
    assert late.rows == {}


@pytest.mark.parametrize(
    ("program", "seconds", "error"),
    [
        ("print('almost there')", 600, "last line must be JSON"),
        ("import threading; threading.Event().wait()", 0.3, "stopped"),  # it never ends by itself
    ],
)
def test_a_job_without_a_result_is_an_error(program, seconds, error):
    row = lanes.run(job("odd", program), seconds)
    assert set(row) == {"error"}
    assert error in row["error"]


def test_jobs_have_one_thread_and_no_gpu():
    row = lanes.run(job("env", "import os, json; print(json.dumps(dict(os.environ)))"), 60)
    assert (row["OMP_NUM_THREADS"], row["CUDA_VISIBLE_DEVICES"]) == ("1", "")


@pytest.fixture
def forks(monkeypatch, tmp_path):
    (tmp_path / "forked_job.py").write_text(MODULE.format(log=str(tmp_path / "log")))
    monkeypatch.syspath_prepend(tmp_path)
    server = lanes.forkserver._forkserver  # ends with the process otherwise
    server._stop()
    yield lanes.Forks("forked_job")
    server._stop()


def test_jobs_are_forks_of_one_import_with_memory_of_their_own(forks, tmp_path):
    row, other = (forks(lanes.Job(name, [name]), 60) for name in ("first", "second"))
    assert "error" not in row, row
    assert (row["seen"], other["seen"], row["threads"]) == ([["first"]], [["second"]], "1")
    assert len({row["process"], other["process"], os.getpid()}) == 3
    assert (tmp_path / "log").read_text() == "imported\n"
    assert forks(lanes.Job("c", ["fail"]), 60) == {"error": "ValueError: no memory left"}
    assert forks(lanes.Job("d", ["die"]), 60) == {"error": "exit code 3"}
    assert forks(lanes.Job("e", ["hang"]), 0.3) == {"error": "stopped after 0 s"}
