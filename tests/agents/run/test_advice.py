"""A run that cannot learn says so; one that can is left in peace."""

import math
from pathlib import Path

import pytest

from llm_gym_agents.run.diagnostics import PATIENCE, RunDiagnostics, symptoms

WELL = {
    "episode/success": 0.4,
    "episode/invalid": 0.05,
    "episode/cut_replies": 0.02,
    "episode/failed": 0.0,
    "reward/mean": 0.4,
    "reward/std": 0.49,
    "group/no_spread": 0.3,
    "policy/kl": 0.004,
    "policy/entropy": 0.4,
    "value/mean": 0.35,
    "value/target_mean": 0.4,
}
PLANTED = {
    "no_spread": ({"reward/std": 0.0, "reward/mean": -1.6}, "had the reward -1.6"),
    "unusable": ({"episode/invalid": 0.97}, "97% of the replies cannot be used"),
    "cut": ({"episode/cut_replies": 1.0}, "100% of the replies were cut"),
    "certain": ({"policy/entropy": 1e-5}, "the entropy is 1e-05"),
    "random": ({"policy/entropy": math.log(100) - 0.01}, "as high as it can be"),
    "still": ({"policy/kl": 0.0}, "the policy does not move (KL 0)"),
    "wild": ({"policy/kl": 3.2}, "the policy jumps (KL 3.2"),
    "values": ({"value/mean": 8.95, "reward/mean": 0.1, "reward/std": 0.0001}, "away to 8.95"),
    "groups": ({"group/no_spread": 1.0}, "100% of the groups"),
    "failing": ({"episode/failed": 0.75}, "75% of the episodes failed"),
}


def looked(rows, vocabulary=100):
    advisor = RunDiagnostics(vocabulary)
    return [advice for row in rows for advice in advisor.look(row)], advisor


@pytest.mark.parametrize("name", PLANTED)
def test_each_sign_is_said_once_with_its_number_and_a_setting(name):
    planted, says = PLANTED[name]
    found, advisor = looked([WELL | planted] * (PATIENCE + 3))
    assert [advice.name for advice in found] == [name]
    assert says in found[0].sentence
    assert "." in found[0].sentence or "--" in found[0].sentence
    assert advisor.metrics == {f"advice/{name}": 1.0}


def test_values_are_measured_by_how_far_rewards_are_apart():
    far = WELL | {"value/mean": 8.95, "reward/mean": 0.1, "reward/std": 9.0}
    assert looked([far] * (PATIENCE + 3))[0] == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_sign_that_does_not_hold_is_noise(name):
    planted, _ = PLANTED[name]
    rows = ([WELL | planted] * (PATIENCE - 1) + [WELL]) * 4
    found, advisor = looked(rows)
    assert found == []
    assert advisor.metrics == {}


def test_a_sign_that_comes_back_is_said_again():
    bad = WELL | PLANTED["unusable"][0]
    found, _ = looked([bad] * PATIENCE + [WELL] + [bad] * PATIENCE)
    assert [advice.name for advice in found] == ["unusable", "unusable"]


def test_who_waits_for_the_critic_is_not_told_to_move():
    still = WELL | PLANTED["still"][0]
    assert looked([still | {"train/critic_only": 1.0}] * PATIENCE)[0] == []
    assert len(looked([still | {"train/critic_only": 0.0}] * PATIENCE)[0]) == 1


def test_a_healthy_run_raises_nothing():
    assert looked([WELL] * 20)[0] == []


def test_a_batch_that_always_wins_is_no_fault():
    won = WELL | {"episode/success": 1.0, "reward/std": 0.0, "reward/mean": 1.0}
    assert looked([won | {"policy/entropy": 1e-5}] * 5)[0] == []


def test_rows_without_a_metric_say_nothing_about_it():
    assert looked([{"policy/kl": 0.01}] * 5)[0] == []


def test_a_run_that_goes_on_does_not_repeat_itself():
    bad = WELL | PLANTED["unusable"][0]
    advisor = RunDiagnostics(100)
    advisor.catch_up([bad] * 5)
    assert advisor.look(bad) == []
    assert advisor.metrics == {"advice/unusable": 1.0}


def test_the_only_step_of_an_iteration_moves_nothing_that_is_measured_before_it():
    assert looked([WELL | {"policy/kl": 0.0, "train/steps": 1.0}] * 6)[0] == []


def test_every_sign_is_in_the_docs():
    page = (Path(__file__).parents[3] / "docs/training.md").read_text()
    table = page.split("## When a run cannot learn")[1].split("\n## ")[0]
    assert all(f"`{sign.name}`" in table for sign in symptoms())
