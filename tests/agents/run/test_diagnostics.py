"""A run that does not learn says why; one that learns is left alone."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.run.diagnostics import LONG, PATIENCE, RunDiagnostics, final_diagnosis, symptoms

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
    planted, says = PLANTED[name]
    ((found, sentence),), diagnostics = diagnosed([WELL | planted] * (LONG + 3))
    assert found == name
    assert says in sentence
    assert "." in sentence or "--" in sentence
    assert diagnostics.metrics == {f"advice/{name}": 1.0}


def test_values_are_measured_by_how_far_rewards_are_apart():
    far = WELL | {"value/mean": 8.95, "reward/mean": 0.1, "reward/std": 9.0}
    assert diagnosed([far] * (PATIENCE + 3))[0] == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_symptom_that_does_not_hold_is_noise(name):
    planted, _ = PLANTED[name]
    rows = ([WELL | planted] * (PATIENCE - 1) + [WELL]) * 4
    found, diagnostics = diagnosed(rows)
    assert found == []
    assert diagnostics.metrics == {}


def test_a_symptom_that_comes_back_is_not_reported_again():
    bad = WELL | PLANTED["invalid_replies"][0]
    found, diagnostics = diagnosed([bad] * PATIENCE + [WELL] + [bad] * PATIENCE)
    assert [name for name, _ in found] == ["invalid_replies"]
    assert diagnostics.metrics == {"advice/invalid_replies": 1.0}


def test_a_critic_warm_up_is_no_missing_update():
    still = WELL | PLANTED["no_update"][0]
    assert diagnosed([still | {"train/critic_only": 1.0}] * PATIENCE)[0] == []
    assert len(diagnosed([still | {"train/critic_only": 0.0}] * PATIENCE)[0]) == 1


def test_a_healthy_run_raises_nothing():
    assert diagnosed([WELL] * 20)[0] == []


def test_a_batch_that_always_wins_is_no_fault():
    won = WELL | {"episode/success": 1.0, "reward/std": 0.0, "reward/mean": 1.0}
    assert diagnosed([won | {"policy/entropy": 1e-5}] * 5)[0] == []


def test_rows_without_a_metric_say_nothing_about_it():
    assert diagnosed([{"policy/kl": 0.01}] * 5)[0] == []


def test_a_resumed_run_does_not_repeat_itself():
    bad = WELL | PLANTED["invalid_replies"][0]
    diagnostics = RunDiagnostics(100)
    diagnostics.catch_up([bad] * 5)
    assert diagnostics.update(bad) == {}
    assert diagnostics.metrics == {"advice/invalid_replies": 1.0}


def test_a_batch_without_signal_is_no_missing_update():
    assert diagnosed([WELL | {"policy/kl": 0.0, "train/signal": 0.0}] * 6)[0] == []


def test_every_symptom_is_in_the_docs():
    page = (Path(__file__).parents[3] / "docs/training.md").read_text()
    table = page.split("## When a run does not learn")[1].split("\n## ")[0]
    assert all(f"`{each.name}`" in table for each in symptoms(100))


# --- after the run ------------------------------------------------------------------------


def played(env_id, wins, of=100, returns=None, says=True):
    """An evaluation with so many wins, or with these returns and none."""
    paid = [float(at < wins) for at in range(of)] if returns is None else returns
    told = {"stop_reason": "finished", "infos": [{"success": False} if says else {}]}
    episodes = [
        SimpleNamespace(success=at < wins, total_reward=r, **told) for at, r in enumerate(paid)
    ]
    return Evaluation(env_id, episodes, tokens=0, seconds=0.0)


def said(env_id, before, after, curve=(), **settings):
    rows = [{"eval/success": each} for each in curve]
    return final_diagnosis(played(env_id, before), played(env_id, after), rows, **settings)


@pytest.mark.parametrize(("before", "after"), [(5, 25), (0, 99), (89, 92), (100, 100)])
def test_a_run_that_gained_enough_or_is_good_is_left_alone(before, after):
    assert said("llm_gym/MazeEasy-v0", before, after) is None


def test_the_solvers_score_is_as_good_as_it_gets():
    sentence = said("llm_gym/Blackjack-v0", 30, 41)
    assert "41%" in sentence
    assert "43%" in sentence
    assert "--" not in sentence


def test_what_never_won_is_said_with_the_solver_that_could_be_imitated():
    sentence = said("llm_gym/TextToSQLEasy-v0", 0, 0, embedded=True)
    assert "none of 100" in sentence
    assert "--warm-start.player solver" in sentence
    assert "--model.model-name" in sentence
    assert "--model.model-name" not in said("llm_gym/TextToSQLEasy-v0", 0, 0)


def test_who_has_imitated_the_solver_is_not_sent_to_it_again():
    before, after = played("llm_gym/TextToSQLEasy-v0", 10), played("llm_gym/TextToSQLEasy-v0", 20)
    sentence = final_diagnosis(before, after, [{"warm_start/from_solver": 1.0}, {}])
    assert "--warm-start.steps" in sentence
    assert "--warm-start.player" not in sentence


def test_what_is_learned_by_heart_is_told_apart_from_what_is_learned():
    sums = "llm_gym/ChainSumEasy-v0"
    rows = [{"episode/success": 0.02}] * 30 + [{"episode/success": 0.22}] * 5
    sentence = final_diagnosis(played(sums, 8), played(sums, 10), rows)
    assert "22%" in sentence
    assert "overfits" in sentence
    assert "overfits" not in final_diagnosis(played(sums, 8), played(sums, 15), rows)
    assert "overfits" not in final_diagnosis(played(sums, 8), played(sums, 10), [])


def test_an_easier_level_is_named_where_there_is_one():
    assert "llm_gym/SokobanEasy-v0" in said("llm_gym/SokobanHard-v0", 0, 1)
    assert "level" not in said("llm_gym/SokobanEasy-v0", 2, 3)


def test_a_curve_that_still_rises_asks_for_more_time_and_a_flat_one_does_not():
    rising = [0.0, 0.0, 0.02, 0.03, 0.1, 0.15]
    assert "num-epochs" in said("llm_gym/MazeEasy-v0", 0, 15, rising)
    assert "num-epochs" not in said("llm_gym/MazeEasy-v0", 0, 15, [0.15] * 6)


def test_an_environment_that_nobody_wins_is_judged_by_what_it_pays():
    def cart(turns):
        return played("CartPole-v1", 0, returns=[turns + at % 5 for at in range(100)])

    assert final_diagnosis(cart(20.0), cart(60.0), []) is None
    assert "none of 100" in final_diagnosis(cart(20.0), cart(20.5), [])


def test_less_is_paid_for_less_even_below_zero():
    def cliff(cost):
        return played("CliffWalking-v1", 0, returns=[-cost - at % 5 for at in range(100)])

    assert final_diagnosis(cliff(600.0), cliff(64.0), []) is None
    assert final_diagnosis(cliff(64.0), cliff(600.0), []) is not None


def test_where_nobody_says_what_success_is_the_return_is_told_and_no_model_is_blamed():
    before, after = (played("My/Env-v0", 0, returns=[r] * 9, says=False) for r in (1.0, 1.25))
    sentence = final_diagnosis(before, after, [], embedded=True)
    assert "from 1 to 1.25" in sentence
    assert "success=module:function" in sentence
    assert "--model.model-name" not in sentence
