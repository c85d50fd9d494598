"""Stabilizers of a whole run: it ends with its best weights, stops in time and replaces groups."""

import re
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_gym_agents.commands.find_model import find_model
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.rollouts.evaluation import Evaluation
from llm_gym_agents.run.checkpoints import Checkpoints, number
from llm_gym_agents.trainer.run_folder import model_card
from tests.agents.checks import copied, same
from tests.agents.config.effect_run import ECHO, make_trainer, settings
from tests.agents.learn.test_schedule import won

FALL = [20, 88, 60, 77]
"""Wins of 100 in the evaluations of a run that falls back."""
AT_LEVEL = [20, 88, 85, 86, 84, 87]
EVALUATED = settings(training__num_iters_per_epoch=4, environment__eval_interval=1)


@pytest.fixture
def made(cleaned):
    """Return a function that makes a trainer; it is cleaned up in the end."""
    return lambda folder, **given: cleaned(make_trainer(EVALUATED | settings(**given), folder))


def planted(trainer, wins):
    """Let evaluations have these wins; return the weights at each."""
    seen, left = [], iter(wins)

    def evaluate(episodes=None, records=None) -> Evaluation:
        seen.append(copied(trainer.learner.lm))
        return won(next(left))

    trainer.evaluate = evaluate
    return seen


def test_a_run_that_falls_back_ends_with_its_best_weights(made, tmp_path):
    trainer = made(tmp_path)
    seen = planted(trainer, FALL)
    rows = trainer.fit()
    assert [round(100 * row["eval/success"]) for row in rows] == FALL
    assert same(trainer.learner.lm.state_dict(), seen[1])
    assert not same(seen[3], seen[1])
    assert trainer.early_stop.now.success == 0.88
    assert number(Checkpoints(tmp_path / "checkpoints").latest()) == 4
    # What plays from now on, and what is left for others, is the best too.
    assert dict(trainer.sampler.engine.model.named_parameters())["model.norm.weight"].equal(
        seen[1]["model.norm.weight"]
    )
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "final").state_dict()
    assert same(loaded, seen[1])
    assert find_model(str(tmp_path))[0] == str(tmp_path / "final")
    # What one takes away tells where it comes from.
    assert AutoTokenizer.from_pretrained(tmp_path / "final").chat_template
    assert (tmp_path / "final" / "generation_config.json").exists()
    card = (tmp_path / "final" / "README.md").read_text()
    for text in (f"`{ECHO}`", "| 2 | 88.0% | 80.2% to 93.0% |", "| seed | 0 |", "license: "):
        assert text in card
    assert re.search(r"\| commit \| ([0-9a-f]{40}(-dirty)?|that of release \S+) \|", card)
    assert f"| command | `{Path(sys.argv[0]).name}" in card
    assert "| imitated before training | nobody |" in card


def test_a_model_card_has_the_command_without_its_password(monkeypatch):
    given = ["train", "llm_gym/Remote-v0", "--environment.env-kwargs", "url=http://any:word@host:1"]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/llm-gym", *given])
    card = model_card(ConfigStore(), [], None, "best-000001")
    assert "| command | `llm-gym train llm_gym/Remote-v0 " in card
    assert "@host:1" in card
    assert "word@" not in card


@pytest.mark.parametrize(("start", "is_kept"), [(90, True), (31, False)])
def test_a_run_that_loses_the_gains_of_its_warm_start_returns_to_it(made, tmp_path, start, is_kept):
    trainer = made(tmp_path, warm_start__player="random", warm_start__turns=8, warm_start__steps=1)
    seen = planted(trainer, [0, start, 40, 30, 25, 22])
    trainer.fit()
    assert same(trainer.learner.lm.state_dict(), seen[1 if is_kept else 2])
    assert not same(seen[1], seen[2])
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "final").state_dict()
    assert same(loaded, seen[1 if is_kept else 2])
    assert trainer.iteration == (0 if is_kept else 1)
    assert len(seen) == (5 if is_kept else 6), "the third fall since the best is the end"
    assert trainer.early_stop.ended == "held-out success fell 3 times from its best"
    assert number(Checkpoints(tmp_path / "checkpoints").latest()) == len(seen) - 2


def test_continuing_a_run_continues_from_its_last_weights(made, tmp_path):
    twice = {"training__num_epochs": 2, "training__num_iters_per_epoch": 3}
    whole = made(tmp_path / "whole", **twice)
    expected = planted(whole, AT_LEVEL)
    whole.fit()
    halves = made(tmp_path / "halves", **twice)
    found = planted(halves, AT_LEVEL)
    halves.fit(num_epochs=1)
    assert halves.iteration == 2, "the best one's"
    rows = halves.fit(num_epochs=2)
    assert [row["iteration"] for row in rows] == list(range(1, 7))
    assert all(same(one, other) for one, other in zip(found, expected, strict=True))
    assert same(halves.learner.lm.state_dict(), expected[1])


def test_groups_without_spread_are_replaced_in_a_real_run(made, tmp_path):
    how = {"training__adv_estimator": "grpo", "training__group_size": 2,
           "environment__eval_interval": 0, "training__num_iters_per_epoch": 1}  # fmt: skip
    rows = {}
    for tries in (0, 4):
        trainer = made(tmp_path / str(tries), training__resample_zero_variance_groups=tries, **how)
        rows[tries] = trainer.fit()
    first, plain = rows[4][0], rows[0][0]
    assert plain["group/zero_variance"] > 0.2
    assert first["group/flat_at_first"] == plain["group/zero_variance"]
    assert first["group/zero_variance"] < plain["group/zero_variance"]
    assert first["group/replaced"] > 0
    assert first["episode/success"] == plain["episode/success"], "of what was named at first"
