"""The demo's benchmark: when each evaluation was over, and a picture of exactly that."""

import importlib
import os
from pathlib import Path

import pytest

from llm_gym.episodes import Trajectory, write_episodes

ROOT = Path(__file__).parents[2]
BEGAN = 1_000_000.0


@pytest.fixture
def load(monkeypatch):
    for folder in ("benchmarks", "docs"):
        monkeypatch.syspath_prepend(ROOT / folder)
    return importlib.import_module


def write(path, won, of, after_s):
    episodes = [
        Trajectory(states=["a", "b"], actions=["x"], infos=[{"success": at < won}], episode_id=at)
        for at in range(of)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_episodes(path, episodes)
    os.utime(path, (BEGAN + after_s, BEGAN + after_s))


def test_every_evaluation_has_its_second_and_the_first_comes_before_any_iteration(load, tmp_path):
    write(tmp_path / "episodes/eval-000010.jsonl", won=4, of=5, after_s=40.25)
    write(tmp_path / "episodes/eval-000005.jsonl", won=2, of=5, after_s=25)
    write(tmp_path / "episodes/before.jsonl", won=0, of=5, after_s=12)
    write(tmp_path / "episodes/after.jsonl", won=5, of=5, after_s=44)
    found = load("demo").held_out(tmp_path, BEGAN)
    assert found == [(0, 12.0, 0.0), (5, 25.0, 0.4), (10, 40.2, 0.8)]


def test_the_picture_has_every_point_of_the_result_and_rings_where_runs_were_over(load, tmp_path):
    draw_demo = load("draw_demo")
    drawn = []
    usual = draw_demo.Axes.plot

    def plot(axes, x, y, **style):
        drawn.append((x, y))
        return usual(axes, x, y, **style)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw_demo.Axes, "plot", plot)
        row = {"seed": 0, "held_out": [[0, 20.0, 0.1], [5, 40.0, 0.9]], "total_s": 50.0}
        result = {"rows": [row | {"fresh": 0.93}], "goal": 0.9, "threads": 1}
        path = draw_demo.draw(result, tmp_path / "demo.png")
    assert path.stat().st_size > 0
    assert ((0, 5), (0.1, 0.9)) in drawn
    assert ((20.0, 40.0), (0.1, 0.9)) in drawn
    assert (50.0, 0.93) in drawn
