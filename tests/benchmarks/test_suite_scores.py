"""The score file: rows are never lost, and games are described as they are."""

import json

import pytest

from benchmarks.envs import suite_scores
from llm_gym.evaluate.scores import Score, games, wilson
from llm_gym.registry.suite import ENVS

ECHO, GUESS = "llm_gym/Echo-v0", "llm_gym/GuessTheNumber-v0"


@pytest.fixture
def suite(monkeypatch, tmp_path):
    """The script, writing into a folder of its own."""
    monkeypatch.setattr(suite_scores, "SCORES", tmp_path / "scores.json")
    return suite_scores


def test_the_only_option_keeps_the_other_rows(suite, capsys):
    suite.save_scores(suite.SCORES, {ECHO: {"random": ["old"]}, GUESS: {"random": ["old"]}})
    suite.main(["--only", "Echo", "--episodes", "5"])
    scores = json.loads(suite.SCORES.read_text())["scores"]
    assert scores[GUESS] == {"random": ["old"]}
    row = {player: Score(*score) for player, score in scores[ECHO].items()}
    assert row.keys() == {"random", "reflex", "solver", "oracle"}
    assert row["oracle"] == (1.0, round(wilson(5, 5)[0], 4), 1.0, row["oracle"].turns, 5)
    assert capsys.readouterr().out.startswith(ECHO)


def test_the_list_describes_each_game_as_it_is(suite):
    """If not: ``python -m benchmarks.envs.suite_scores --only Echo --players random``."""
    assert games() == {row.id: suite.game(row.id) for row in ENVS}
