"""The suite table: rows of the score file are never lost, means are right, a model can play."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from llm_gym.evaluate.scores import Score, games, published, wilson
from llm_gym.registry.suite import ENVS
from tests.agents.tiny import save_tiny

IDS = [row.id for row in ENVS]
ECHO, GUESS = "llm_gym/Echo-v0", "llm_gym/GuessTheNumber-v0"


@pytest.fixture
def suite(monkeypatch, tmp_path):
    """The script, writing into a folder of its own."""
    from benchmarks.envs import suite_scores as script

    monkeypatch.setattr(script, "SCORES", tmp_path / "scores.json")
    monkeypatch.setattr(script, "RESULTS", tmp_path)
    return script


def scores(suite):
    return json.loads(suite.SCORES.read_text())["scores"]


def test_only_measures_those_rows_and_keeps_the_others(suite, capsys):
    suite.save_scores(suite.SCORES, {ECHO: {"random": ["old"]}, GUESS: {"random": ["old"]}})
    suite.main(["--only", "Echo", "--episodes", "5"])
    assert scores(suite)[GUESS] == {"random": ["old"]}
    row = {player: Score(*score) for player, score in scores(suite)[ECHO].items()}
    assert row.keys() == {"random", "reflex", "solver", "oracle"}
    assert row["oracle"] == (1.0, round(wilson(5, 5)[0], 4), 1.0, row["oracle"].turns, 5)
    assert capsys.readouterr().out.startswith(ECHO)


def test_what_the_list_says_of_a_game_is_what_it_is(suite):
    """If not: ``python -m benchmarks.envs.suite_scores --only Echo --players random``."""
    assert games() == {env_id: suite.game(env_id) for env_id in IDS}


def test_rows_that_other_runs_wrote_meanwhile_are_kept(suite):
    def write(env_id):
        suite.save_scores(suite.SCORES, {env_id: {"random": [env_id]}})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, IDS))
    assert scores(suite) == {env_id: {"random": [env_id]} for env_id in IDS}


def row(env_id, success, half, normalised):
    return {
        "env": env_id,
        "success": success,
        "success_low": success - half,
        "success_high": success + half,
        "normalised": normalised,
    }


def test_the_mean_counts_every_environment_alike(suite):
    mean = suite.suite_mean([row(ECHO, 0.5, 0.3, 0.25), row(GUESS, 1.0, 0.4, 0.75)])
    assert mean["success"] == 0.75
    assert mean["success_half_width"] == pytest.approx(0.25)  # √(0.3² + 0.4²) / 2
    assert mean["normalised"] == 0.5
    spans = [published()[name]["solver"].success - published()[name]["random"].success
             for name in (ECHO, GUESS)]  # fmt: skip
    wanted = ((0.3 / spans[0]) ** 2 + (0.4 / spans[1]) ** 2) ** 0.5 / 2
    assert mean["normalised_half_width"] == pytest.approx(wanted)


def test_environments_that_are_played_together_go_as_each_alone(suite, tmp_path):
    from llm_gym_agents.engines.base import Sampling
    from llm_gym_agents.rollouts.evaluation import rollout
    from llm_gym_agents.rollouts.policy import LLMPolicy

    policy = LLMPolicy.from_pretrained(
        save_tiny(tmp_path / "tiny", max_position_embeddings=2048),
        sampling=Sampling(max_tokens=3, temperature=0.0),
    )
    ids = ["llm_gym/GuessTheNumberEasy-v0", ECHO, "llm_gym/Memory-v0"]
    together = suite.play_together(ids, policy, 3, num_envs=4, seed=5)
    for env_id, found in zip(ids, together, strict=True):
        alone = rollout(env_id, policy, 3, seed=5, env_kwargs={"rules": "system"})
        assert [e.states for e in found.episodes] == [e.states for e in alone.episodes]
        assert [e.actions for e in found.episodes] == [e.actions for e in alone.episodes]
        told, wanted = found.summary(), alone.summary()
        del told["tokens_per_s"], wanted["tokens_per_s"]
        assert told == wanted
