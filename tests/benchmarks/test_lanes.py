"""Jobs in lanes: rows as they come, what failed once more, nothing after the deadline."""

import importlib
import json
import sys
from pathlib import Path
from time import monotonic

import pytest

FAILS = "import sys; sys.exit('no memory left')"
WORKS = "print('loading'); print('{\"success\": 0.5}')"


@pytest.fixture
def lanes(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("lanes")


def job(lanes, key, program, timeout=60.0):
    return lanes.Job(key, [sys.executable, "-c", program], timeout)


def rows(path):
    return json.loads(path.read_text())["rows"]


def test_a_job_that_fails_leaves_the_others_alone_and_is_done_again(lanes, tmp_path):
    path, said = tmp_path / "result.json", []
    results = lanes.Results(path, {"command": "test"})
    todo = [job(lanes, "bad", FAILS), job(lanes, "good", WORKS)]
    lanes.work(todo, results, lanes=2, say=said.append)
    assert rows(path)["good"]["success"] == 0.5
    assert rows(path)["bad"]["error"] == "exit code 1: no memory left"
    again = lanes.Results(path, {"command": "test"})
    lanes.work(
        [job(lanes, "bad", WORKS), job(lanes, "good", FAILS)], again, lanes=1, say=said.append
    )
    assert {key: row["success"] for key, row in rows(path).items()} == {"bad": 0.5, "good": 0.5}
    assert len(said) == 3


def test_output_that_is_no_result_is_an_error_that_shows_it(lanes):
    row = lanes.run(job(lanes, "odd", "print('almost there')"), 60)
    assert row == {"error": "its last line must be JSON, got 'almost there'"}


def test_a_job_that_hangs_is_stopped(lanes):
    row = lanes.run(job(lanes, "slow", "import time; time.sleep(60)"), 0.3)
    assert row == {"error": "stopped after 0 s"}


def test_after_the_deadline_nothing_is_started(lanes, tmp_path):
    results = lanes.Results(tmp_path / "result.json", {})
    lanes.work([job(lanes, "late", WORKS)], results, lanes=1, deadline=monotonic())
    assert results.rows == {}


def test_jobs_have_one_thread_and_no_gpu(lanes):
    program = "import os, json; print(json.dumps(dict(os.environ)))"
    row = lanes.run(job(lanes, "env", program), 60)
    assert (row["OMP_NUM_THREADS"], row["CUDA_VISIBLE_DEVICES"]) == ("1", "")
