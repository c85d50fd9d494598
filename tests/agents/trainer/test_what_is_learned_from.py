"""What a run learns from, where its episodes end, and how it stops on SIGTERM."""

import os
import signal

import pytest

from llm_gym import cli
from llm_gym_agents.run.metrics import read_metrics
from tests.agents.checks import record_calls, same
from tests.agents.small_run import BreaksOnce, Odd, small

GROUPS = {"batch_size": 16, "mini_batch_size": 16, "group_size": 4, "adv_estimator": "grpo"}


def test_an_episode_with_a_failed_environment_is_not_learned_from(tmp_path, train):
    trainer = train(small(tmp_path, training=GROUPS), BreaksOnce)
    updates = record_calls(trainer.learner.ppo, "update")
    [row] = trainer.fit()
    [data] = updates[0].args
    kept = len(data.lengths_E)
    assert 0 < kept < 16
    assert row["episode/failed"] == pytest.approx(1 - kept / 16)
    assert data.reward_T.sum() == kept, "those that are left have won"
    assert row["reward/mean"] == 1.0
    assert row["group/zero_variance"] == 1.0
    assert row["reward/std"] == 0.0


class Endless(Odd):
    def step(self, action):
        return "more", 0.1, False, False, {}


@pytest.mark.parametrize("turns", [2, 1])
@pytest.mark.parametrize("is_cut", [False, True])
def test_max_turns_terminates_unless_it_is_bootstrapped(tmp_path, train, turns, is_cut):
    inference = {"max_turns": turns, "bootstrap_at_turn_limit": is_cut}
    trainer = train(small(tmp_path, inference=inference), Endless)
    updates = record_calls(trainer.learner.ppo, "update")
    trainer.fit()
    [update] = updates
    [data] = update.args
    assert data.turn_ends_T.sum() == 4 * turns
    assert data.terminated_E.tolist() == [not is_cut] * 4
    assert ((data.bootstrap_E >= 0) == is_cut).all()


@pytest.mark.slow
def test_values_do_not_diverge_if_max_turns_ends_every_episode(tmp_path, train):
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


# --- SIGTERM ------------------------------------------------------------------------------------

LONG = {"num_iters_per_epoch": 3, "num_epochs": 1}


@pytest.mark.parametrize("when", ["play", "update"])
def test_a_run_stopped_by_sigterm_resumes_to_the_same_weights(tmp_path, train, when):
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
    done = {"play": 1, "update": 2}[when]  # a running update is finished
    assert stopped.iteration == done == len(read_metrics(tmp_path / "run"))
    assert (tmp_path / "run" / "final" / "model.safetensors").exists()
    stopped.cleanup()  # which frees the folder for the next one
    config = small(tmp_path / "run", training=LONG, checkpoint={"resume": True})
    again = train(config, Odd)
    updates = record_calls(again.learner.ppo, "update")
    again.fit()
    assert (again.iteration, len(updates)) == (3, 3 - done), "nothing is learned twice"
    assert not again.stopped
    assert same(whole.learner.model.state_dict(), again.learner.model.state_dict())


FEW = (
    "--training.num-epochs", "1", "--training.num-iters-per-epoch", "4",
    "--training.batch-size", "4", "--environment.eval-interval", "0",
    "--environment.eval-episodes", "2", "--warm-start.player", "none",
    "--environment.env-kwargs", "strict=true",
)  # fmt: skip


@pytest.mark.parametrize(
    ("strict", "code"), [pytest.param((), 0, marks=pytest.mark.slow), (("--strict",), 2)]
)
def test_unusable_replies_cause_advice_and_strict_ends_the_run(
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
