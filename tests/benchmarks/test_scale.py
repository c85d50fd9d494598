"""What the scripts of scale make of their numbers: episodes that count once, seconds, tables."""

import importlib
import json
from pathlib import Path

import pytest


@pytest.fixture
def script(monkeypatch, tmp_path):
    """Import a script of benchmarks/ by its name; result files are in ``tmp_path``."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    monkeypatch.setattr(importlib.import_module("doc_tables"), "RESULTS", tmp_path)
    return importlib.import_module


def chaotic(ids, rows):
    return {"ids": ids, "rows": rows, "restarts": 2, "seconds": 9.0, "killed": [{"playing": True}]}


def test_an_episode_that_is_lost_or_comes_twice_is_counted(script):
    compared = script("chaos").compared
    alone = {"rows": [{"loss": 1.0}], "seconds": 3.0}
    found = compared(chaotic([0, 1, 1, 3], [{"loss": 1.0}]), alone, 4)
    assert (found["lost"], found["doubled"], found["equal"]) == (1, 1, True)
    found = compared(chaotic([0, 1, 2, 3], [{"loss": 1.5}]), alone, 4)
    assert (found["lost"], found["doubled"], found["equal"]) == (0, 0, False)
    assert found["kills_while_playing"] == 1


def test_figures_of_a_stage_leave_its_first_iteration_out(script):
    rows = [{"episode/tokens": tokens, "time/update_s": 1.0 * tokens} for tokens in (9, 2, 4)]
    found = script("ray_gpu").figures(rows, [10.0, 12.0, 13.0], 30)
    assert found["iteration_s"] == 1.5
    assert found["tokens_per_s"] == 30 * (2 + 4) / 3
    assert found["episodes_per_s"] == 20.0
    assert found["median"] == {"episode/tokens": 3.0, "time/update_s": 3.0}
    assert "iteration_s" not in script("ray_gpu").figures(rows[:1], [10.0], 30)


def test_tables_say_what_is_missing_and_what_ended_early(script, tmp_path):
    tables = script("scale_tables")
    assert all(table().startswith("Not measured yet: `") for table in tables.TABLES.values())
    stages = {
        "in_process": {
            "start_s": 40.0,
            "iteration_s": 2.5,
            "episodes_per_s": 12.25,
            "median": {"time/collect_s": 1.0, "time/update_s": 1.25},
        },
        "sync": {"ended": "took more than 9 s: | waiting"},
    }
    (tmp_path / "ray_gpu.json").write_text(
        json.dumps({"made_by": {"command": ""}, "settings": {}, "stages": stages})
    )
    lines = tables.ray_gpu().splitlines()
    assert lines[2] == "| one process, in turn | 40 s | 2.50 s | 1.00 s | 1.25 s | - | 12.2 | - |"
    assert "took more than 9 s: / waiting" in lines[3]
    assert {line.count("|") for line in lines[:5]} == {9}


def test_the_table_of_staleness_takes_means_over_seeds_and_says_what_is_equal(script, tmp_path):
    def row(speed, *curve, **mean):
        points = [{"episodes": 8 * at, "success": success} for at, success in enumerate(curve)]
        return {"episodes_per_s": speed, "curve": points, "final": curve[-1], "mean": mean}

    old = {"ray/staleness_mean": 0.5, "mismatch/ess": 0.9, "time/actor_idle": 0.25}
    rows = {
        "G/0/warm": {"steps": 3},
        "G/0/1": row(10.0, 0.0, 0.5, **old),
        "G/1/1": row(30.0, 0.5, 1.0, **old),
        "G/0/equal": {"equal": True},
    }
    (tmp_path / "staleness.json").write_text(json.dumps({"rows": rows}))
    lines = script("scale_tables").staleness().splitlines()
    assert lines[2] == (
        "| 2 actors, staleness 1 | 2 | 20.0 | 25% | 50% | 75% | 0.50 | 0.90 | 0.25 |"
    )
    assert lines[-1] == "At staleness 0 every number was that of one process, to the bit."
