"""What scripts share: jobs in lanes."""

import dataclasses
import json
import sys
from time import monotonic

import pytest

from benchmarks.lib import lanes

FAILS = "import sys; sys.exit('no memory left')"
WORKS = "print('loading'); print('{\"success\": 0.5}')"


def job(key, program, timeout=60.0):
    return lanes.Job(key, [sys.executable, "-c", program], timeout)


def rows(path):
    return json.loads(path.read_text())["rows"]


def test_a_failed_job_is_repeated_and_the_others_are_kept(tmp_path, capsys):
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


@pytest.mark.parametrize(
    ("given", "on_gpu", "seen"), [("3", False, ""), ("3", True, "3"), (None, True, "0")]
)
def test_jobs_see_one_thread_and_only_their_gpu(monkeypatch, given, on_gpu, seen):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    env_job = job("env", "import os, json; print(json.dumps(dict(os.environ)))")
    environ = lanes.first_gpu() if on_gpu else None
    row = lanes.run(dataclasses.replace(env_job, environ=environ), 60)
    assert (row["OMP_NUM_THREADS"], row["CUDA_VISIBLE_DEVICES"]) == ("1", seen)


def test_the_row_of_a_job_is_what_its_module_returns(monkeypatch, tmp_path):
    (tmp_path / "a_job.py").write_text("def result(arguments):\n    return {'seen': arguments}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    called = lanes.Job("a", lanes.calling("a_job", "Echo", "--model.lora-rank", "4"))
    assert lanes.run(called, 60) == {"seen": ["Echo", "--model.lora-rank", "4"]}
