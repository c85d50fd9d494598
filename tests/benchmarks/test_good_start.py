"""The runs from a good start: who is imitated, what is tried, and the table of it."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("good_start")


def test_every_variant_begins_with_the_weights_of_its_game_and_seed(script, tmp_path):
    asked = ["--only", "SearchQAEasy", "--variants", "as it is", "fast", "--seeds", "4"]
    warm, *runs = script.jobs(script.parser().parse_args(asked), tmp_path)
    place = str(tmp_path / "SearchQAEasy-4")
    assert warm.command == ["warm", "SearchQAEasy", "4", place, "--warm-start.player", "solver"]
    assert [run.key for run in runs] == ["SearchQAEasy/4/as it is", "SearchQAEasy/4/fast"]
    assert all(run.command[3] == place for run in runs)
    assert runs[1].command[-2:] == ["--warm-start.rl-rate-factor", "1"]


def test_the_table_tells_how_low_it_went_after_the_start(script):
    def row(seed, *success):
        curve = [{"success": each} for each in success]
        return {"game": "MazeEasy", "seed": seed, "final": 0.5, "cpu_s": 10, "curve": curve}

    rows = {
        "MazeEasy/0/fast": row(0, 0.4, 0.2, 0.6),
        "MazeEasy/1/fast": row(1, 0.6, 0.4, 0.4),
        "MazeEasy/2/fast": {"error": "stopped after 3 s"},
        "MazeEasy/0/warm": {"game": "MazeEasy", "seed": 0},
    }
    assert script.table(rows).splitlines()[2:] == [
        "| MazeEasy | fast | 2 | 50.0% | 30.0% | 40.0% | 50.0% | 10 |"
    ]
