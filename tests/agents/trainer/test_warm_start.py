"""A warm start as a setting: decided, done once, measured, kept and resumed."""

import shutil

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.learn import warm_start
from llm_gym_agents.run.metrics import read_metrics
from tests.agents.small_run import small, trained, untimed
from tests.agents.tiny import save_tiny

ECHO = "llm_gym/Echo-v0"
WARM = {"player": "random", "turns": 60, "steps": 12, "rate": 1e-2}


def echo(folder, **sections):
    config = small(folder, environment={"env_id": ECHO, "env_kwargs": {"rules": "system"}})
    config.update({"inference": {"context": "observation", "system_prompt": ""}})
    config.update({"warm_start": WARM})
    config.update(sections)
    return config


def weights(folder):
    return (folder / "model/model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of two epochs with a warm start."""
    folder = tmp_path_factory.mktemp("whole")
    trained(echo(folder, training={"num_epochs": 2}))
    return folder


def test_it_is_in_the_row_of_the_first_iteration_and_only_there(whole):
    first, second = read_metrics(whole)
    assert first["warm_start/turns"] == 60
    assert first["warm_start/from_solver"] == 0.0
    assert first["warm_start/steps"] == 12
    assert first["warm_start/loss"] < first["warm_start/loss_first"] / 1.5
    assert first["warm_start/invalid"] < first["warm_start/invalid_before"]
    assert {"warm_start/success_before", "warm_start/success"} <= first.keys()
    assert not any(name.startswith("warm_start/") for name in second)


def test_a_run_killed_after_it_goes_on_without_doing_it_again(whole, tmp_path, monkeypatch):
    shutil.copytree(whole / "warm-start", tmp_path / "warm-start")
    monkeypatch.setattr(warm_start, "imitate", None)
    trained(echo(tmp_path, training={"num_epochs": 2}, checkpoint={"resume": True}))
    name = "checkpoints/iteration-000002"
    assert weights(tmp_path / name) == weights(whole / name)
    assert untimed(read_metrics(tmp_path)) == untimed(read_metrics(whole))


def test_whoever_is_stopped_after_it_has_all_that_a_resume_reads(train, tmp_path):
    trainer = train(echo(tmp_path))
    trainer.warm_up()
    assert ConfigStore.load(tmp_path / "config.json").to_dict() == trainer.config.to_dict()


def test_nothing_is_imitated_in_the_folder_of_another_run(train, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "theirs")
    trainer = train(echo(tmp_path / "theirs", training={"seed": 5}))
    with pytest.raises(ConfigError, match="new folder"):
        trainer.fit()
    assert weights(tmp_path / "theirs/warm-start") == weights(whole / "warm-start")


def test_copies_of_the_policy_begin_where_it_begins(train, tmp_path):
    kl = {"kl": "loss", "kl_coef": 0.1}
    trainer = train(echo(tmp_path, training=kl, model={"critic": "separate"}))
    trainer.warm_up()
    parts = trainer.learner.state()
    taught = trainer.learner.lm.state_dict()
    for name, kept in parts["reference"].tensors.items():
        assert torch.equal(kept, taught[name.removeprefix("lm.")]), name
    copied = trainer.learner.model.critic_lm.state_dict()
    for name, kept in trainer.learner.lm.base_model.state_dict().items():
        assert torch.equal(kept, copied[name]), name


def test_the_engine_plays_with_what_was_taught(train, tmp_path):
    trainer = train(echo(tmp_path))
    before = trainer.evaluate(4).invalid
    trainer.warm_up()
    assert trainer.evaluate(4).invalid < before
    assert trainer.publisher.version == trainer.sampler.engine.version == 0


def told(config, **kwargs):
    said = []
    trainer = PPOTrainer(config, **kwargs)
    trainer.warm_up(said.append)
    trainer.cleanup()
    return trainer, said


def test_auto_imitates_the_solver_and_says_why(tmp_path):
    trainer, said = told(echo(tmp_path, warm_start={"player": "auto"}))
    assert "solver" in said[0]
    assert "60 moves, 12 steps" in said[1]
    assert trainer.warm_start["warm_start/steps"] == 12
    assert trainer.warm_start["warm_start/from_solver"] == 1.0


def test_auto_probes_a_given_model_and_teaches_one_that_writes_no_moves(tmp_path, monkeypatch):
    monkeypatch.setattr(warm_start, "ROOMY", 8)
    model = {"model_name": save_tiny(tmp_path / "model")}
    auto = {"player": "auto", "turns": 8, "steps": 1}
    trainer, said = told(echo(tmp_path / "run", model=model, warm_start=auto))
    assert "50%" in said[0]
    assert trainer.warm_start


def test_auto_leaves_a_given_model_alone_that_writes_and_wins_enough(tmp_path, monkeypatch):
    model = {"model_name": save_tiny(tmp_path / "model")}
    auto = {"player": "auto"}
    monkeypatch.setattr(warm_start, "ENOUGH_USABLE", 0.0)
    monkeypatch.setattr(warm_start, "SELDOM", 0.0)
    trainer, said = told(echo(tmp_path / "run", model=model, warm_start=auto))
    assert said[0].startswith("warm start: none")
    assert trainer.warm_start == {}
    assert not (tmp_path / "run/warm-start").exists()


def test_adapters_are_taught_and_their_base_is_not(train, tmp_path):
    config = echo(tmp_path, model={"lora_rank": 2})
    trainer = train(config)
    before = {name: each.clone() for name, each in trainer.learner.lm.named_parameters()}
    trainer.warm_up()
    changed = {
        name
        for name, each in trainer.learner.lm.named_parameters()
        if not torch.equal(each, before[name])
    }
    assert changed
    assert all("lora_" in name for name in changed)


@pytest.fixture
def at_random(monkeypatch):
    """Let ``auto`` begin with random moves."""
    decision = warm_start.Decision("random", "a test says so")
    monkeypatch.setattr(warm_start.WarmStart, "decide", lambda teacher: decision)


@pytest.mark.usefixtures("at_random")
def test_auto_imitates_the_solver_after_all_where_a_quarter_of_the_run_gained_nothing(
    train, tmp_path
):
    """A rate of nearly 0 learns nothing, so that only the solver can help."""
    training = {"num_epochs": 4, "learning_rate": 1e-9}
    config = echo(tmp_path, training=training, warm_start={"player": "auto", "steps": 30})
    config.environment.eval_interval, config.environment.eval_episodes = 1, 8
    said = []
    trainer = train(config)
    trainer.on_notice = said.append
    rows = trainer.fit()
    assert [row.get("warm_start/from_solver") for row in rows] == [0.0, 1.0, None, None]
    assert rows[1]["warm_start/solver_at"] == 1
    assert rows[-1]["eval/return"] > rows[0]["eval/return"] + 0.1
    assert "solver" in said[0]
    again = train(echo(tmp_path, training=training | {"num_epochs": 4}))
    again.load_checkpoint(tmp_path / "warm-start")
    assert again.iteration == 1


@pytest.mark.usefixtures("at_random")
def test_weights_come_back_where_imitating_the_solver_led_to_less(train, tmp_path, monkeypatch):
    training = {"num_epochs": 4, "learning_rate": 1e-9}
    config = echo(tmp_path, training=training, warm_start={"player": "auto", "steps": 6})
    config.environment.eval_interval, config.environment.eval_episodes = 1, 4
    config.checkpoint.save_interval = 1

    def ruin(teacher, why):
        for weight in teacher.learner.lm.parameters():
            weight.data.zero_()
        # At chance a small run may win nothing; what is worse must be less than that.
        return dict.fromkeys(warm_start.STARTED, -1.0) | {"warm_start/from_solver": 1.0}

    monkeypatch.setattr(warm_start.WarmStart, "run_second", ruin)
    trainer = train(config)
    said = []
    trainer.on_notice = said.append
    trainer.fit()
    assert any("back" in line for line in said)
    assert all(weight.any() for weight in trainer.learner.lm.parameters())
    assert not trainer.warm_start["warm_start/from_solver"]
