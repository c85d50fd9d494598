"""``PPOTrainer``: a fault or a wrong argument is one sentence, and nothing is lost."""

import re

import gymnasium as gym
import pytest
import torch

from llm_gym.core.errors import ConfigError, LLMGymError
from llm_gym_agents import PPOTrainer
from llm_gym_agents.learn.ppo import NonFiniteError
from llm_gym_agents.rollouts.rewards import RewardError
from llm_gym_agents.run.metrics import read_metrics
from tests.agents.checks import copied, is_one_line, same
from tests.agents.small_run import NeverBegins, Odd, small
from tests.agents.tiny import tiny_model, tiny_tokenizer


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda p: PPOTrainer(small(p, training={"group_size": 3}), Odd), "training.group_size"),
        (lambda p: PPOTrainer(small(p, training={"adv_estimator": "grpo"}), Odd), "group_size"),
        (lambda p: PPOTrainer(small(p, model={"model_name": "./nowhere"}), Odd), "./nowhere"),
        (
            lambda p: PPOTrainer(small(p, model={"model_name": "no/such-model"}), Odd),
            "no/such-model",
        ),
        (lambda p: PPOTrainer(small(p)), "environment.env_id"),
        (lambda p: PPOTrainer(small(p), Odd, dataset=[]), "dataset"),
        (lambda p: PPOTrainer(small(p), Odd, model=tiny_model()), "tokenizer"),
        (lambda p: PPOTrainer(small(p), "llm_gym/Ecko-v0"), "Ecko-v0"),
        (lambda p: PPOTrainer(small(p), Odd).fit(num_epochs=0), "training.num_epochs"),
    ],
)
def test_a_wrong_setting_is_a_one_line_error(tmp_path, make, expected):
    with pytest.raises(LLMGymError, check=is_one_line) as caught:
        make(tmp_path)
    assert expected in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 1e38])
def test_a_reward_that_is_no_number_stops_the_run(train, tmp_path, reward):
    trainer = train(small(tmp_path), type("Bad", (Odd,), {"reward": reward}))
    before = copied(trainer.learner.lm)
    with pytest.raises((LLMGymError, ValueError), check=is_one_line):
        trainer.fit()
    assert same(trainer.learner.lm.state_dict(), before)


def test_a_loss_that_is_no_number_stops_the_run(train, tmp_path):
    config = small(tmp_path, training={"num_iters_per_epoch": 2})
    trainer = train(config, Odd)

    def spoil(trainer, row):
        with torch.no_grad():
            trainer.learner.model.value_head.bias.fill_(1e30)

    trainer.callbacks.append(spoil)
    with pytest.raises(NonFiniteError, match="loss", check=is_one_line):
        trainer.fit()
    assert len(read_metrics(tmp_path)) == 1


def test_weights_that_are_not_finite_stop_the_run(train, tmp_path):
    config = small(tmp_path, training={"num_iters_per_epoch": 3})
    trainer = train(config, Odd, reward_fn=lambda t: len(t.actions[0]))
    for group in trainer.learner.ppo.optimizer.param_groups:
        group["base_lr"] = 1e30  # as a setting it is refused
    with pytest.raises(LLMGymError, match="not finite", check=is_one_line):
        trainer.fit()


def test_the_folder_of_another_run_is_left_alone(tmp_path):
    trainer = PPOTrainer(small(tmp_path / "theirs"), Odd)
    trainer.fit()
    kept = trainer.save_checkpoint(tmp_path / "elsewhere")
    trainer.cleanup()
    theirs = {p: p.read_bytes() for p in (tmp_path / "theirs").rglob("*") if p.is_file()}
    for load in (False, True):
        other = PPOTrainer(small(tmp_path / "theirs", training={"seed": 5}), Odd)
        if load:
            other.load_checkpoint(kept)
        with pytest.raises(
            LLMGymError, match=re.escape(str(tmp_path / "theirs")), check=is_one_line
        ):
            other.fit(num_epochs=3)
        other.cleanup()
    assert theirs == {p: p.read_bytes() for p in (tmp_path / "theirs").rglob("*") if p.is_file()}


def test_a_checkpoint_resumes_in_a_new_folder_with_the_new_config(train, tmp_path):
    trainer = train(small(tmp_path / "old"), Odd)
    trainer.fit()
    kept = trainer.save_checkpoint(tmp_path / "kept")
    changes = {"learning_rate": 0.5, "adam_eps": 0.25}
    other = train(small(tmp_path / "new", training=changes), Odd)
    other.load_checkpoint(kept)
    group = other.learner.ppo.optimizer.param_groups[0]
    assert (group["base_lr"], group["eps"]) == (0.5, 0.25)
    other.fit(num_epochs=2)
    assert [row["iteration"] for row in read_metrics(tmp_path / "new")] == [2]


class BreaksDown(Odd):
    """Works for twenty steps of all its copies together, and never again."""

    steps = 0

    def step(self, action):
        BreaksDown.steps += 1
        if BreaksDown.steps > 20:
            raise RuntimeError("the disk of the server is full")
        return super().step(action)


class BreaksMostly(Odd):
    """Fails in three episodes of four."""

    steps = 0

    def step(self, action):
        BreaksMostly.steps += 1
        if BreaksMostly.steps % 4:
            raise RuntimeError("out of patience")
        return super().step(action)


def odd(**changed):
    return type("Changed", (Odd,), changed)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (NeverBegins, "no such level"),
        (odd(reward="ten"), "'ten'"),
        (odd(step=lambda self, action: ("!", 1.0, True, False, None)), "info"),
        (odd(reset=lambda self, **how: ("?", None)), "info"),
        (odd(step=lambda self, action: ("!", 1.0, True, {})), "values"),
        (BreaksDown, "the disk of the server is full"),
        (BreaksMostly, "3 of 4"),
    ],
)
def test_a_broken_environment_stops_the_run(train, tmp_path, environment, expected):
    environment.steps = 0
    trainer = train(small(tmp_path, training={"num_iters_per_epoch": 50}), environment)
    with pytest.raises(LLMGymError, match=expected, check=is_one_line):
        trainer.fit()
    assert trainer.iteration < 10


def broken():
    model = tiny_model()
    torch.nn.init.constant_(model.lm_head.weight, torch.nan)
    return model


def larger():
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([f"<{at}>" for at in range(10)])
    return tokenizer


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"config": None}, "ConfigStore"),
        ({"config": {"training": {}}}, "ConfigStore"),
        ({"callbacks": print}, "callbacks"),
        ({"callbacks": [3]}, "callbacks"),
        ({"callbacks": [lambda row: None]}, "a callback must take"),
        ({"environment": gym.make_vec("CartPole-v1", num_envs=2)}, "single"),
        ({"tokenizer": "gpt2"}, "tokenizer"),
        ({"model": "gpt2"}, "model"),
        ({"model": torch.nn.Linear(2, 2)}, "Linear"),
        ({"model": tiny_model().base_model}, "LlamaModel"),
        ({"model": tiny_model().to("meta")}, "meta"),
        ({"model": tiny_model().requires_grad_(False)}, "frozen"),
        ({"model": broken()}, "not finite"),
        ({"model": tiny_model(), "tokenizer": larger()}, "271"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_an_argument_of_the_wrong_kind_is_refused(tmp_path, given, what):
    usual = {"config": small(tmp_path), "environment": Odd, "tokenizer": tiny_tokenizer()}
    with pytest.raises(ConfigError, match=what, check=is_one_line):
        PPOTrainer(**usual | given)
    assert not list(tmp_path.iterdir())


def test_a_peft_model_is_refused(tmp_path):
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(tiny_model(), peft.LoraConfig(r=2, target_modules="all-linear"))
    with pytest.raises(ConfigError, match="PeftModel"):
        PPOTrainer(small(tmp_path), Odd, model=model, tokenizer=tiny_tokenizer())


def test_a_frozen_model_is_accepted_if_adapters_are_trained(train, tmp_path):
    pytest.importorskip("peft")
    model = tiny_model().requires_grad_(False)
    config = small(tmp_path, model={"lora_rank": 2})
    trainer = train(config, Odd, model=model, tokenizer=tiny_tokenizer())
    trained = [name for name, each in trainer.learner.lm.named_parameters() if each.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)


def test_a_cleaned_up_trainer_refuses_to_train(train, tmp_path):
    trainer = train(small(tmp_path), Odd)
    trainer.cleanup()
    with pytest.raises(ConfigError, match=r"cleanup\(\)"):
        trainer.fit()


def test_a_reward_function_that_empties_an_episode_is_an_error(train, tmp_path):
    def empty(episode):
        episode.actions.clear()
        episode.rewards.clear()
        return 1.0

    trainer = train(small(tmp_path), Odd, reward_fn=empty)
    with pytest.raises(RewardError, match="episode 0"):
        trainer.fit()
