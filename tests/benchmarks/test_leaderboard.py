"""The leaderboard: what is added stays, means are those of the rows, strangers are refused."""

import importlib
import json
from pathlib import Path

import pytest

from llm_gym.evaluate.scores import published

ECHO, COUNT = "llm_gym/Echo-v0", "llm_gym/Count-v0"


@pytest.fixture
def board(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    script = importlib.import_module("leaderboard")
    monkeypatch.setattr(script, "RESULT", tmp_path / "board.json")
    return script


def row(env_id, success, episodes=20):
    return {
        "env": env_id, "episodes": episodes, "success": success, "success_low": 0.1,
        "success_high": 0.9, "turns": 3.0, "invalid": 0.25, "tokens": 12, "normalised": None,
    }  # fmt: skip


def test_rows_of_a_later_evaluation_are_added_and_replaced(board):
    board.add([row(ECHO, 0.5), row(COUNT, 0.5)], "small", "greedy", board.RESULT)
    board.add({"rows": [row(COUNT, 1.0)], "command": "other"}, "small", "", board.RESULT)
    model = board.read(board.RESULT)["small"]
    assert {key: each["success"] for key, each in model["rows"].items()} == {ECHO: 0.5, COUNT: 1.0}
    assert model["note"] == "greedy"
    assert json.loads(board.RESULT.read_text())["command"]


def test_means_and_places_are_those_of_the_rows(board):
    low, high = (published()[ECHO][player].success for player in ("random", "solver"))
    middle = (low + high) / 2
    models = {"half": {"note": "", "rows": {ECHO: row(ECHO, middle)}}}
    line = board.table(models).splitlines()[-1]
    assert line == f"| half | 1 | 20 | {middle:.1%} | 0.50 | 25% |"
    assert (
        board.by_game(models)
        .splitlines()[-1]
        .endswith(f"| {low:.0%} | {middle:.0%} (10% to 90%) | {high:.0%} |")
    )


def test_a_game_that_is_not_of_the_suite_is_refused(board):
    with pytest.raises(SystemExit, match=r"got CartPole-v1"):
        board.add([row("CartPole-v1", 0.5)], "small", "", board.RESULT)
    assert not board.RESULT.exists()


def test_the_heat_map_shows_every_player(board, tmp_path):
    place = tmp_path / "map.png"
    board.draw({"half": {"note": "", "rows": {ECHO: row(ECHO, 0.5)}}}, place)
    assert place.read_bytes()[:4] == b"\x89PNG"
