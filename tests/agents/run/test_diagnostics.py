"""A run that does not learn is diagnosed; one that learns is left alone."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.run.diagnostics import LONG, PATIENCE, RunDiagnostics, final_diagnosis

WELL = {
    "episode/success": 0.4,
    "episode/invalid": 0.05,
    "episode/truncated_replies": 0.02,
    "episode/failed": 0.0,
    "reward/mean": 0.4,
    "reward/std": 0.49,
    "group/zero_variance": 0.3,
    "policy/kl": 0.004,
    "policy/entropy": 0.4,
    "value/mean": 0.35,
    "value/target_mean": 0.4,
    "value/explained_variance": 0.3,
}
PLANTED = {
    "zero_variance": ({"reward/std": 0.0, "reward/mean": -1.6}, "-1.6"),
    "invalid_replies": ({"episode/invalid": 0.97}, "97%"),
    "truncated_replies": ({"episode/truncated_replies": 1.0}, "100%"),
    "entropy_collapse": ({"policy/entropy": 1e-5}, "1e-05"),
    "max_entropy": ({"policy/entropy": math.log(100) - 0.01}, "4.6"),
    "no_update": ({"policy/kl": 0.0}, "KL 0"),
    "value_divergence": ({"value/mean": 8.95, "reward/mean": 0.1, "reward/std": 0.0001}, "8.95"),
    "idle_critic": ({"value/explained_variance": -0.07}, "-0.07"),
    "zero_variance_groups": ({"group/zero_variance": 1.0}, "100%"),
    "env_failures": ({"episode/failed": 0.75}, "75%"),
}


def diagnosed(rows):
    diagnostics = RunDiagnostics(vocabulary=100)
    return [found for row in rows for found in diagnostics.update(row).items()], diagnostics


@pytest.mark.parametrize("name", PLANTED)
def test_each_symptom_is_reported_once_with_its_number_and_a_setting(name):
    planted, number = PLANTED[name]
    ((found, sentence),), diagnostics = diagnosed([WELL | planted] * (LONG + 3))
    assert found == name
    assert number in sentence
    assert "." in sentence or "--" in sentence
    assert diagnostics.metrics == {f"advice/{name}": 1.0}


QUIET = {
    "healthy": WELL,
    "always won": WELL
    | {"episode/success": 1.0, "reward/std": 0.0, "reward/mean": 1.0, "policy/entropy": 1e-5},
    "without the metric": {"policy/kl": 0.01},
    "without a signal": WELL | {"policy/kl": 0.0, "train/signal": 0.0},
    "the critic alone": WELL | {"policy/kl": 0.0, "train/critic_only": 1.0},
    "values as far as rewards": WELL | {"value/mean": 8.95, "reward/mean": 0.1, "reward/std": 9.0},
}


@pytest.mark.parametrize("name", QUIET)
def test_a_healthy_run_has_no_symptoms(name):
    assert diagnosed([QUIET[name]] * 20)[0] == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_symptom_that_does_not_last_is_ignored(name):
    planted, _ = PLANTED[name]
    rows = ([WELL | planted] * (PATIENCE - 1) + [WELL]) * 4
    found, diagnostics = diagnosed(rows)
    assert found == []
    assert diagnostics.metrics == {}


def test_a_symptom_is_reported_once_even_after_a_resume():
    bad = WELL | PLANTED["invalid_replies"][0]
    found, diagnostics = diagnosed([bad] * PATIENCE + [WELL] + [bad] * PATIENCE)
    assert [name for name, _ in found] == ["invalid_replies"]
    assert diagnostics.metrics == {"advice/invalid_replies": 1.0}
    diagnostics = RunDiagnostics(100)
    diagnostics.catch_up([bad] * 5)
    assert diagnostics.update(bad) == {}
    assert diagnostics.metrics == {"advice/invalid_replies": 1.0}


def test_every_symptom_is_in_the_docs():
    page = (Path(__file__).parents[3] / "docs/training.md").read_text()
    table = page.split("## When a run does not learn")[1].split("\n## ")[0]
    assert all(f"`{each.name}`" in table for each in RunDiagnostics(100).symptoms)


# --- after the run ------------------------------------------------------------------------


def played(env_id, wins, of=100, returns=None, has_success=True):
    """An evaluation with so many wins, or with these returns and none."""
    paid = [float(at < wins) for at in range(of)] if returns is None else returns
    fields = {"stop_reason": "finished", "infos": [{"success": False} if has_success else {}]}
    episodes = [
        SimpleNamespace(success=at < wins, total_reward=r, **fields) for at, r in enumerate(paid)
    ]
    return Evaluation(env_id, episodes, tokens=0, seconds=0.0)


@pytest.mark.parametrize(("before", "after"), [(5, 25), (0, 99), (89, 92), (100, 100)])
def test_a_run_that_improved_or_is_good_gets_no_diagnosis(before, after):
    game = "llm_gym/MazeEasy-v0"
    assert final_diagnosis(played(game, before), played(game, after), []) is None


SQL, RISING = "llm_gym/TextToSQLEasy-v0", [0.0, 0.0, 0.02, 0.03, 0.1, 0.15]


@pytest.mark.parametrize(
    ("env_id", "wins", "rows", "embedded", "present", "absent"),
    [
        # The solver's score is as good as it gets.
        ("llm_gym/Blackjack-v0", (30, 41), [], False, ["41%", "43%"], ["--"]),
        (SQL, (0, 0), [], True, ["none of 100", "--warm-start.player solver", "--model."], []),
        (SQL, (0, 0), [], False, ["--warm-start.player solver"], ["--model.model-name"]),
        (SQL, (10, 20), [{"warm_start/from_solver": 1.0}, {}], False, ["--warm-start.steps"],
         ["--warm-start.player"]),
        ("llm_gym/SokobanHard-v0", (0, 1), [], False, ["llm_gym/SokobanEasy-v0"], []),
        ("llm_gym/SokobanEasy-v0", (2, 3), [], False, [], ["level"]),
        ("llm_gym/MazeEasy-v0", (0, 15), [{"eval/success": each} for each in RISING], False,
         ["num-epochs"], []),
        ("llm_gym/MazeEasy-v0", (0, 15), [{"eval/success": 0.15}] * 6, False, [], ["num-epochs"]),
    ],
)  # fmt: skip
def test_the_diagnosis_names_what_would_help(env_id, wins, rows, embedded, present, absent):
    before, after = (played(env_id, each) for each in wins)
    sentence = final_diagnosis(before, after, rows, embedded=embedded)
    assert all(words in sentence for words in present)
    assert not any(words in sentence for words in absent)


def test_overfitting_is_detected():
    sums = "llm_gym/ChainSumEasy-v0"
    rows = [{"episode/success": 0.02}] * 30 + [{"episode/success": 0.22}] * 5
    sentence = final_diagnosis(played(sums, 8), played(sums, 10), rows)
    assert "22%" in sentence
    assert "overfits" in sentence
    assert "overfits" not in final_diagnosis(played(sums, 8), played(sums, 15), rows)
    assert "overfits" not in final_diagnosis(played(sums, 8), played(sums, 10), [])


@pytest.mark.parametrize(
    ("env_id", "before", "after", "learned"),
    [
        ("CartPole-v1", 20.0, 60.0, True),
        ("CartPole-v1", 20.0, 20.5, False),
        ("CliffWalking-v1", -600.0, -64.0, True),
        ("CliffWalking-v1", -64.0, -600.0, False),
    ],
)
def test_an_environment_without_wins_is_judged_by_its_return(env_id, before, after, learned):
    spread = (played(env_id, 0, returns=[paid + at % 5 for at in range(100)])
              for paid in (before, after))  # fmt: skip
    sentence = final_diagnosis(*spread, [])
    assert sentence is None if learned else "none of 100" in sentence


def test_without_a_success_flag_the_diagnosis_reports_the_return():
    before, after = (
        played("My/Env-v0", 0, returns=[r] * 9, has_success=False) for r in (1.0, 1.25)
    )
    sentence = final_diagnosis(before, after, [], embedded=True)
    assert "from 1 to 1.25" in sentence
    assert "success=module:function" in sentence
    assert "--model.model-name" not in sentence
