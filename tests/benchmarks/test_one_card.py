"""Figures of one GPU: what ran is drawn, what failed is not, and nothing of it is smoothed away."""

import importlib
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    module = importlib.import_module("curves.one_card")
    module.drawn = []
    plot = module.Axes.plot

    def spied(axes, x, y, *args, **kwargs):
        module.drawn.append((list(x), list(y)))
        return plot(axes, x, y, *args, **kwargs)

    monkeypatch.setattr(module.Axes, "plot", spied)
    return module


def test_runs_of_both_sides_are_drawn_against_seconds_and_episodes(script, tmp_path):
    rows = [{"seconds": at, "episodes": 64 * at, "success": at / 10} for at in (1.0, 2.0)]
    sides = {
        "ours, a": {"side": "ours", "rows": rows},
        "trl, a": {"side": "trl", "rows": []},
    }
    script.draw_beside(
        {"sides": sides, "summary": {"best": {"ours": "ours, a"}}}, tmp_path / "a.png"
    )
    success = pytest.approx([0.1, 0.15])
    assert script.drawn == [([1.0, 2.0], success), ([64.0, 128.0], success)]
    assert (tmp_path / "a.png").stat().st_size > 0


def test_a_game_begins_where_its_warm_start_ended_and_ends_in_held_out_success(script, tmp_path):
    well = {
        "game": "maze", "seed": 0, "warm": {"success": 0.2}, "trained": {"success": 0.9},
        "curve": [[3.0, 0.4, 1.0], [5.0, 0.8, 1.0]],
    }  # fmt: skip
    failed = {"game": "maze", "seed": 1, "error": "no memory"}
    script.draw_games({"runs": [failed, well]}, tmp_path / "b.png")
    assert script.drawn == [
        ([0.0, 3.0, 5.0], pytest.approx([0.2, 0.4, 0.6])),
        ([5.0], [0.9]),
    ]
