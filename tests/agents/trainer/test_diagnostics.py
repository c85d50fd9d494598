"""Diagnosis reaches the display and the metrics of a real run, and ends one that is strict."""

import pytest

from llm_gym import cli
from llm_gym_agents import PPOTrainer
from llm_gym_agents.run.metrics import read_metrics
from tests.agents.small_run import small

FEW = (
    "--training.num-epochs", "1", "--training.num-iters-per-epoch", "4",
    "--training.batch-size", "4", "--environment.eval-interval", "0",
    "--environment.eval-episodes", "2", "--warm-start.player", "none",
    "--environment.env-kwargs", "strict=true",
)  # fmt: skip


def test_a_model_of_random_weights_is_said_to_write_no_moves(tmp_path):
    said = []
    config = small(tmp_path, training={"num_iters_per_epoch": 4})
    config.environment.env_kwargs = {"strict": True}  # or a word among many would count
    trainer = PPOTrainer(config, "llm_gym/Echo-v0")
    trainer.on_warning = said.append
    trainer.fit()
    trainer.cleanup()
    assert any("--warm-start.player" in sentence for sentence in said)
    rows = read_metrics(tmp_path)
    assert "advice/invalid_replies" not in rows[1]
    assert rows[2]["advice/invalid_replies"] == 1.0


@pytest.mark.parametrize(("strict", "code"), [((), 0), (("--strict",), 2)])
def test_strict_ends_such_a_run(tmp_path, monkeypatch, capsys, strict, code):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "llm_gym/Echo-v0", *FEW, *strict]) == code
    out, err = capsys.readouterr()
    assert "advice: " in out
    assert ("the run cannot learn" in err) == bool(strict)
    assert len(read_metrics("runs/Echo-v0")) == (3 if strict else 4)
