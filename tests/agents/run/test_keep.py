"""The last few checkpoints and the best are kept, and a run goes on from them."""

import json

from llm_gym_agents.run.checkpoints import Checkpoints, TrainerState, load_checkpoint
from tests.agents.run.checkpoint_run import Run, outcome, tiny_lm


def saved(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_last_few_and_the_best_are_kept(tmp_path):
    kept = Checkpoints(tmp_path, keep_last_n=2)
    assert (kept.latest(), kept.best()) == (None, None)
    lm = tiny_lm()
    for iteration, success in [(1, 0.1), (2, None), (3, 0.6), (4, 0.6), (10, 0.2), (11, None)]:
        assert success is None or kept.is_best(success) == (iteration in (1, 3))
        kept.save(TrainerState(iteration=iteration, success=success), lm=lm)
    assert saved(tmp_path) == ["best-000003", "iteration-000010", "iteration-000011"]
    assert kept.latest() == tmp_path / "iteration-000011"
    assert load_checkpoint(kept.best()).success == 0.6
    fresh = Checkpoints(tmp_path, keep_last_n=1)
    assert not fresh.is_best(0.6)
    fresh.save(TrainerState(iteration=1_000_000, success=0.7), lm=lm)
    assert saved(tmp_path) == ["best-1000000", "iteration-1000000"]
    assert fresh.latest() == tmp_path / "iteration-1000000"


def test_the_best_is_the_one_whose_interval_begins_highest_and_of_these_the_most_successful(
    tmp_path,
):
    kept, lm, best = Checkpoints(tmp_path, keep_last_n=1), tiny_lm(), []
    for iteration, success, low in [(1, 0.8, 0.7), (2, 1.0, 0.5), (3, 0.9, 0.7)]:
        found = kept.is_best(success, low)
        kept.save(TrainerState(iteration=iteration, success=success, success_low=low), lm=lm)
        best.append((found, load_checkpoint(kept.best()).iteration))
    assert best == [(True, 1), (False, 1), (True, 3)]  # a few lucky episodes are no match for many


def test_the_copy_of_the_best_costs_no_disk(tmp_path):
    state, lm = TrainerState(iteration=1, success=0.5), tiny_lm()
    place = Checkpoints(tmp_path / "with").save(state, lm=lm)
    links = (place / "model/model.safetensors").stat().st_nlink
    assert links == 2


def test_a_run_that_goes_on_from_an_older_checkpoint_drops_the_later_ones(tmp_path):
    kept, lm = Checkpoints(tmp_path, keep_last_n=2), tiny_lm()
    for iteration in range(1, 5):
        kept.save(TrainerState(iteration=iteration, success=iteration / 10), lm=lm)
    kept.drop_after(3)
    assert saved(tmp_path) == ["iteration-000003"]
    kept.save(TrainerState(iteration=4), lm=lm)
    assert saved(tmp_path) == ["best-000003", "iteration-000003", "iteration-000004"]


def test_names_that_only_look_like_checkpoints_are_passed_over(tmp_path):
    kept = Checkpoints(tmp_path)
    kept.save(TrainerState(iteration=1), lm=tiny_lm())
    (tmp_path / "iteration-000009").mkdir()
    (tmp_path / "iteration-last").mkdir()
    assert kept.latest() == tmp_path / "iteration-000001"


# --- the whole of it ---------------------------------------------------------------------


def test_a_run_that_is_left_and_taken_up_again_ends_as_one_that_was_not(tmp_path):
    Run(tmp_path / "whole").fit()
    for iterations in (1, 2, 4, 5):
        Run(tmp_path / "parts", seed=iterations - 1).fit(iterations)
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    values = json.loads((tmp_path / "whole/checkpoints/iteration-000005/trainer.json").read_text())
    assert values["iteration"] == 5
