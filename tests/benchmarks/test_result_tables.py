"""The tables of docs/results.md: from files, with what failed, and honest about what is missing."""

import importlib
import json
from pathlib import Path

import pytest


@pytest.fixture
def tables(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    monkeypatch.setattr(importlib.import_module("doc_tables"), "RESULTS", tmp_path)
    return importlib.import_module("result_tables")


def final(side, setting, *points):
    return {
        "side": side,
        "setting": setting,
        "curve": [
            {"updates": 10 * at, "episodes": 640 * at, "cpu_s": cpu_s, "success": success}
            for at, (cpu_s, success) in enumerate(points)
        ],
    }


def test_what_is_not_measured_is_said_with_its_command(tables):
    for table in tables.TABLES.values():
        assert table().startswith("Not measured yet: `python benchmarks/")
    assert tables.trl_headline() == ""


def test_the_headline_tells_cpu_seconds_to_the_success_that_trl_ends_with(tables, tmp_path):
    rows = {
        "final/trl/a/0": final("trl", "a", (0.0, 0.3), (120.0, 0.6)),
        "final/ours/b/0": final("ours", "b", (0.0, 0.3), (10.0, 0.6), (20.0, 0.8)),
    }
    (tmp_path / "trl_train.json").write_text(json.dumps({"rows": rows}))
    assert tables.trl_headline() == "", "one seed is no headline"
    rows |= {f"final/ours/b/{seed}": rows["final/ours/b/0"] for seed in (1, 2)}
    (tmp_path / "trl_train.json").write_text(json.dumps({"rows": rows}))
    assert tables.trl_headline() == (
        "On the same tiny model, game and batch it reaches the 60% that TRL 1.16 ends with in 10 "
        "CPU seconds instead of 120, and goes on to 80% ([results](docs/results.md))."
    )
    assert "| ours, b | 3 | 30.0% | 80.0% | 80.0% to 80.0% | 80.0% |" in tables.trl_train()
    assert tables.trl_train().splitlines()[-1].endswith("| 10 | 12.0x |")


def test_a_side_that_failed_is_a_row_that_says_why(tables, tmp_path):
    rows = {"stock": {"error": "ModuleNotFoundError: No module named 'triton'"}}
    (tmp_path / "agilerl_train.json").write_text(json.dumps({"rows": rows}))
    assert "| stock | does not run: ModuleNotFoundError: No module named 'triton' |" in (
        tables.agilerl()
    )
    sides = {"trl": {"side": "trl", "backend": "vllm", "error": "exit 1:\nno card", "rows": []}}
    made = {"summary": {"runs": {}, "best": {}}, "sides": sides}
    (tmp_path / "trl_gpu.json").write_text(json.dumps(made))
    assert "| trl | vllm | failed: no card |" in tables.trl_gpu()


def test_runs_that_failed_are_named_above_the_curves(tables, tmp_path):
    curve = [
        {"episodes": 0, "cpu_s": 0.0, "success": 0.1},
        {"episodes": 128, "cpu_s": 9.0, "success": 0.9},
    ]
    run = {"game": "Echo", "seed": 0, "estimator": "gae", "final": 0.9, "best": 0.9, "cpu_s": 9.0}
    rows = {
        "Echo/0/gae": run | {"curve": curve},
        "Echo/0/shuffled": run | {"curve": curve, "estimator": "shuffled"},
        "Echo/0/grpo": {"error": "stopped after 9 s"},
        "Echo/0/rloo": {"error": "exit 1: no memory"},
    }
    (tmp_path / "learning.json").write_text(json.dumps({"rows": rows}))
    first = tables.learning().splitlines()[0]
    assert first == (
        "1 of 105 runs; with 1 of 1 pairs of game and estimator every seed that was run ended at "
        "80% or more. 1 more were cut when the time was up. 1 runs failed: Echo/0/rloo."
    )


def test_the_first_table_counts_games_that_every_seed_learned(tables, tmp_path):
    reached = importlib.import_module("reached_table").reached
    assert reached().count("Not measured yet") == 8

    def run(game, seed, warm, trained):
        return {
            "game": game,
            "seed": seed,
            "warm": {"success": warm},
            "trained": {"success": trained},
            "all_s": 60 + 6 * seed,
        }

    runs = [run("lake", seed, 0.1, 0.93 + 0.02 * seed) for seed in range(3)]
    runs += [run("maze", seed, 0.1, 0.95 - 0.1 * seed) for seed in range(3)]
    runs += [run("taught", seed, 0.95, 0.99) for seed in range(3)]
    runs += [run("once", 0, 0.1, 0.99)]
    (tmp_path / "real_model.json").write_text(json.dumps({"runs": runs}))
    told = "lake: 93% or more with each of three seeds, in at most 1.2 minutes |"
    assert f"| {told}" in reached()
