"""What a run learns from, where its episodes end, and how it stops when it is told to."""

import os
import signal

import pytest

from llm_gym import cli
from llm_gym_agents.run.metrics import read_metrics
from tests.agents.small_run import BreaksOnce, Odd, small


def learned(trainer):
    """Return the batches that a trainer learns from, as they come."""
    seen, update = [], trainer.learner.ppo.update

    def watch(data, **kwargs):
        seen.append(data)
        return update(data, **kwargs)

    trainer.learner.ppo.update = watch
    return seen


GROUPS = {"batch_size": 16, "mini_batch_size": 16, "group_size": 4, "adv_estimator": "grpo"}


def test_an_episode_whose_environment_failed_is_no_lesson(tmp_path, train):
    trainer = train(small(tmp_path, training=GROUPS), BreaksOnce)
    seen = learned(trainer)
    [row] = trainer.fit()
    kept = len(seen[0].lengths_E)
    assert 0 < kept < 16
    assert row["episode/failed"] == pytest.approx(1 - kept / 16)
    assert seen[0].reward_T.sum() == kept, "those that are left have won"
    assert row["reward/mean"] == 1.0
    assert row["group/zero_variance"] == 1.0
    assert row["reward/std"] == 0.0


class Endless(Odd):
    def step(self, action):
        return "more", 0.1, False, False, {}


@pytest.mark.parametrize("turns", [2, 1])
@pytest.mark.parametrize("is_cut", [False, True])
def test_our_own_limit_is_an_ending_unless_asked_otherwise(tmp_path, train, turns, is_cut):
    inference = {"max_turns": turns, "bootstrap_at_turn_limit": is_cut}
    trainer = train(small(tmp_path, inference=inference), Endless)
    seen = learned(trainer)
    trainer.fit()
    [data] = seen
    assert data.turn_ends_T.sum() == 4 * turns
    assert data.terminated_E.tolist() == [not is_cut] * 4
    assert ((data.bootstrap_E >= 0) == is_cut).all()


@pytest.mark.slow
def test_values_do_not_run_away_where_our_own_limit_ends_every_episode(tmp_path, train):
    training = {"num_iters_per_epoch": 30, "learning_rate": 1e-2, "ppo_epochs": 2}
    config = small(tmp_path, training=training, inference={"max_turns": 1})
    rows = train(config, Endless).fit()
    assert abs(rows[-1]["value/mean"]) < 0.5, "every return is 0.1"


def test_replies_that_were_cut_are_counted(tmp_path, train):
    [row] = train(small(tmp_path, inference={"max_tokens": 1}), Odd).fit()
    assert row["episode/truncated_replies"] > 0.9
    for phase in ("collect", "update"):
        assert row[f"time/{phase}_tokens_per_s"] > 0
    assert {"time/score_s", "time/advantage_s", "time/train_s"} <= row.keys()


# --- told to stop -------------------------------------------------------------------------------

LONG = {"num_iters_per_epoch": 3, "num_epochs": 1}


def weights(trainer):
    return {name: weight.clone() for name, weight in trainer.learner.model.named_parameters()}


@pytest.mark.parametrize("when", ["play", "update"])
def test_a_run_that_is_told_to_stop_goes_on_to_the_same_weights(tmp_path, train, when):
    whole = train(small(tmp_path / "whole", training=LONG), Odd)
    whole.fit()
    stopped = train(small(tmp_path / "run", training=LONG), Odd)
    owners = {"play": stopped.sampler, "update": stopped.learner.ppo}
    owner, name = owners[when], when
    usual, calls = getattr(owner, name), []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return usual(*args, **kwargs)

    setattr(owner, name, interrupted)
    before = signal.getsignal(signal.SIGTERM)
    stopped.fit()
    assert signal.getsignal(signal.SIGTERM) is before
    assert stopped.stopped
    done = {"play": 1, "update": 2}[when]  # an update that has begun is finished
    assert stopped.iteration == done == len(read_metrics(tmp_path / "run"))
    assert (tmp_path / "run" / "final" / "model.safetensors").exists()
    stopped.cleanup()  # which frees the folder for the next one
    config = small(tmp_path / "run", training=LONG, checkpoint={"resume": True})
    again = train(config, Odd)
    batches = learned(again)
    again.fit()
    assert (again.iteration, len(batches)) == (3, 3 - done), "nothing is learned twice"
    assert not again.stopped
    for key, weight in weights(whole).items():
        assert weight.equal(weights(again)[key]), key


FEW = (
    "--training.num-epochs", "1", "--training.num-iters-per-epoch", "4",
    "--training.batch-size", "4", "--environment.eval-interval", "0",
    "--environment.eval-episodes", "2", "--warm-start.player", "none",
    "--environment.env-kwargs", "strict=true",
)  # fmt: skip


@pytest.mark.parametrize(
    ("strict", "code"), [pytest.param((), 0, marks=pytest.mark.slow), (("--strict",), 2)]
)
def test_who_writes_no_moves_is_told_and_strict_ends_the_run(
    tmp_path, monkeypatch, capsys, strict, code, unpainted
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "llm_gym/Echo-v0", *FEW, *strict]) == code
    out, err = capsys.readouterr()
    assert "advice: " in out
    assert ("the run cannot learn" in err) == bool(strict)
    rows = read_metrics("runs/Echo-v0")
    assert len(rows) == (3 if strict else 4)
    assert "--warm-start.player" in out
    assert "advice/invalid_replies" not in rows[1]
    assert rows[2]["advice/invalid_replies"] == 1.0
