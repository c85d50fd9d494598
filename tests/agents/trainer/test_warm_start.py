"""A warm start as a setting: decided, done once, measured, kept and resumed."""

import shutil

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.learn import warm_start
from llm_gym_agents.run.metrics import read_metrics
from tests.agents.checks import copied
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


def test_warm_start_metrics_are_only_in_the_first_row(whole):
    first, second = read_metrics(whole)
    assert first["warm_start/turns"] == 60
    assert first["warm_start/from_solver"] == 0.0
    assert first["warm_start/steps"] == 12
    assert first["warm_start/loss"] < first["warm_start/loss_first"] / 1.5
    assert first["warm_start/invalid"] < first["warm_start/invalid_before"]
    assert {"warm_start/success_before", "warm_start/success"} <= first.keys()
    assert not any(name.startswith("warm_start/") for name in second)


def test_a_run_killed_after_the_warm_start_does_not_repeat_it(whole, tmp_path, monkeypatch):
    shutil.copytree(whole / "warm-start", tmp_path / "warm-start")
    monkeypatch.setattr(warm_start, "imitate", None)
    trained(echo(tmp_path, training={"num_epochs": 2}, checkpoint={"resume": True}))
    name = "checkpoints/iteration-000002"
    assert weights(tmp_path / name) == weights(whole / name)
    assert untimed(read_metrics(tmp_path)) == untimed(read_metrics(whole))


def test_the_config_is_saved_after_the_warm_start(train, tmp_path):
    trainer = train(echo(tmp_path))
    trainer.warm_up()
    assert ConfigStore.load(tmp_path / "config.json").to_dict() == trainer.config.to_dict()


def test_nothing_is_imitated_in_the_folder_of_another_run(train, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "theirs")
    trainer = train(echo(tmp_path / "theirs", training={"seed": 5}))
    with pytest.raises(ConfigError, match=str(tmp_path)):
        trainer.fit()
    assert weights(tmp_path / "theirs/warm-start") == weights(whole / "warm-start")


def test_reference_and_critic_start_from_the_warm_started_policy(train, tmp_path):
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


def test_the_engine_plays_with_the_warm_started_weights(train, tmp_path):
    trainer = train(echo(tmp_path))
    before = trainer.evaluate(4).invalid
    trainer.warm_up()
    assert trainer.evaluate(4).invalid < before
    assert trainer.publisher.version == trainer.sampler.engine.version == 0


def warmed_up(config, **kwargs):
    messages = []
    trainer = PPOTrainer(config, **kwargs)
    trainer.warm_up(messages.append)
    trainer.cleanup()
    return trainer, messages


def test_auto_imitates_the_solver_and_reports_why(tmp_path):
    trainer, messages = warmed_up(echo(tmp_path, warm_start={"player": "auto"}))
    assert "solver" in messages[0]
    assert "60 moves, 12 steps" in messages[1]
    assert trainer.warm_start["warm_start/steps"] == 12
    assert trainer.warm_start["warm_start/from_solver"] == 1.0


@pytest.mark.parametrize(
    ("limits", "message", "is_warm"),
    [
        ({"ROOMY": 8}, "50%", True),  # it writes no moves
        ({"ENOUGH_USABLE": 0.0, "SELDOM": 0.0}, "warm start: none", False),
    ],
)
def test_auto_warm_starts_a_given_model_unless_it_wins_enough(
    tmp_path, monkeypatch, limits, message, is_warm
):
    for name, value in limits.items():
        monkeypatch.setattr(warm_start, name, value)
    model = {"model_name": save_tiny(tmp_path / "model")}
    auto = {"player": "auto", "turns": 8, "steps": 1}
    trainer, messages = warmed_up(echo(tmp_path / "run", model=model, warm_start=auto))
    assert message in messages[0]
    assert bool(trainer.warm_start) == is_warm
    assert (tmp_path / "run/warm-start").exists() == is_warm


def test_a_warm_start_trains_adapters_and_not_their_base(train, tmp_path):
    config = echo(tmp_path, model={"lora_rank": 2})
    trainer = train(config)
    before = copied(trainer.learner.lm)
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
    decision = warm_start.Decision("random", "chosen by a test")
    monkeypatch.setattr(warm_start.WarmStart, "decide", lambda teacher: decision)


@pytest.mark.usefixtures("at_random")
def test_auto_imitates_the_solver_if_a_quarter_of_the_run_gained_nothing(train, tmp_path):
    """A rate of nearly 0 learns nothing, so that only the solver can help."""
    training = {"num_epochs": 4, "learning_rate": 1e-9}
    config = echo(tmp_path, training=training, warm_start={"player": "auto", "steps": 30})
    config.environment.eval_interval, config.environment.eval_episodes = 1, 8
    messages = []
    trainer = train(config)
    trainer.on_notice = messages.append
    rows = trainer.fit()
    assert [row.get("warm_start/from_solver") for row in rows] == [0.0, 1.0, None, None]
    assert rows[1]["warm_start/solver_at"] == 1
    assert rows[-1]["eval/return"] > rows[0]["eval/return"] + 0.1
    assert "solver" in messages[0]
    again = train(echo(tmp_path, training=training | {"num_epochs": 4}))
    again.load_checkpoint(tmp_path / "warm-start")
    assert again.iteration == 1


@pytest.mark.usefixtures("at_random")
def test_weights_are_restored_if_imitating_the_solver_made_them_worse(train, tmp_path, monkeypatch):
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
    messages = []
    trainer.on_notice = messages.append
    trainer.fit()
    assert any("back" in line for line in messages)
    assert all(weight.any() for weight in trainer.learner.lm.parameters())
    assert not trainer.warm_start["warm_start/from_solver"]
