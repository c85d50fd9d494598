"""Results that came back joined: each to its file, suites to the leaderboard, with a commit."""

import importlib
import json
from pathlib import Path

import pytest


@pytest.fixture
def unpack(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    script = importlib.import_module("unpack_results")
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(script, "HERE", tmp_path)
    return script


def test_a_result_without_a_commit_gets_the_one_that_was_run(unpack, tmp_path):
    unpack.place("learning", {"commit": None, "rows": {}}, "abc")
    unpack.place("trl_gpu", {"commit": "def", "sides": {}}, "abc")
    read = {
        path.stem: json.loads(path.read_text())["commit"]
        for path in (tmp_path / "results").glob("*.json")
    }
    assert read == {"learning": "abc", "trl_gpu": "def"}


def test_rows_of_the_suite_go_to_the_leaderboard(unpack, monkeypatch):
    board, added = importlib.import_module("leaderboard"), []
    monkeypatch.setattr(board, "add", lambda *given: added.append(given))
    result = {"args": {"engine": "vllm", "max_tokens": 32}, "rows": []}
    unpack.place("suite_SmolLM2", result, None)
    assert added == [(result, "SmolLM2-135M-Instruct", "vllm, greedy, 32 tokens a reply")]
