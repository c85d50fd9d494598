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


def test_a_note_on_the_file_stays(board):
    board.add([row(ECHO, 0.5)], "small", "greedy", board.RESULT)
    board.RESULT.write_text(json.dumps(json.loads(board.RESULT.read_text()) | {"note": "by hand"}))
    board.add([row(COUNT, 0.5)], "small", "", board.RESULT)
    assert json.loads(board.RESULT.read_text())["note"] == "by hand"


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


def test_transfer_shows_the_family_and_what_surely_moved_and_counts_the_rest(board):
    taught, sister = "llm_gym/GuessTheNumber-v0", "llm_gym/GuessTheNumberHard-v0"
    before = {each: row(each, 0.5) for each in (COUNT, ECHO, sister, taught)}
    after = before | {
        ECHO: row(ECHO, 0.0) | {"success_low": 0.0, "success_high": 0.09},
        COUNT: row(COUNT, 0.9) | {"success_low": 0.8},
    }
    models = {name: {"note": "", "rows": rows} for name, rows in
              ((board.BEFORE, before), (board.AFTER, after))}  # fmt: skip
    _, _, first, second, third, rest = board.transfer(models).splitlines()
    assert first.startswith(f"| `{taught}` |")
    assert first.endswith("| learned |")
    assert second.startswith(f"| `{sister}` |")
    assert second.endswith("| its family |")
    assert third.startswith(f"| `{ECHO}` | 0% | 50% (10% to 90%) | 0% (0% to 9%) |")
    assert "the 2 of other families" in rest, "Count may have moved, and is in the mean"
    assert rest.endswith("| 50.0% | 45.0% | |")
    assert "Not measured" in board.transfer({board.BEFORE: models[board.BEFORE]})


def test_a_game_that_is_not_of_the_suite_is_refused(board):
    with pytest.raises(SystemExit, match=r"got CartPole-v1"):
        board.add([row("CartPole-v1", 0.5)], "small", "", board.RESULT)
    assert not board.RESULT.exists()


def test_the_heat_map_shows_every_player(board, tmp_path):
    place = tmp_path / "map.png"
    board.draw({"half": {"note": "", "rows": {ECHO: row(ECHO, 0.5)}}}, place)
    assert place.read_bytes()[:4] == b"\x89PNG"
