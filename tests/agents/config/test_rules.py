"""Settings that contradict each other are found before the run; those without effect are named."""

import pytest
import torch

from llm_gym.errors import ConfigError
from llm_gym_agents.algo import ADVANTAGES, POLICY_LOSSES, Advantages, register_advantage
from llm_gym_agents.config import ConfigStore, unused_settings
from llm_gym_agents.distributed.build import device_of


def config_with(**changes):
    config = ConfigStore()
    for path, value in changes.items():
        section, _, name = path.partition("__")
        setattr(getattr(config, section), name, value)
    return config


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"training__adv_estimator": "grpo"}, "training.group_size"),
        ({"training__group_size": 5}, "training.batch_size"),
        ({"training__mini_batch_size": 33}, "training.mini_batch_size"),
        ({"training__warmup_iters": 100}, "training.warmup_iters"),
        (
            {
                "training__critic_warmup_iters": 6,
                "training__num_epochs": 2,
                "training__num_iters_per_epoch": 3,
            },
            "training.critic_warmup_iters",
        ),
        ({"training__policy_loss": "gspo", "training__clip_ratio": 0.1}, "training.clip_ratio"),
        (
            {
                "training__policy_loss": "gspo",
                "training__clip_ratio": 0.0003,
                "training__clip_ratio_high": 0.4,
            },
            "training.clip_ratio",
        ),
        ({"training__loss_agg": "seq-mean-token-sum-norm"}, "inference.max_turns"),
        ({"inference__temperature": 0}, "inference.temperature"),
        ({"environment__workers": 33}, "environment.workers"),
        ({"environment__timeout": 3}, "environment.timeout"),
        ({"model__tensor_parallel_size": 2}, "model.tensor_parallel_size"),
        (
            {"ray__use_ray": True, "ray__staleness": 1, "training__importance_cap": None},
            "training.importance_cap",
        ),
        ({"training__policy_loss": "gpg", "training__mini_batch_size": 32}, "training.ppo_epochs"),
        ({"training__policy_loss": "gspo", "training__clip_ratio": 0.2}, "training.clip_ratio"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, named):
    config = config_with(**changes)
    with pytest.raises(ConfigError) as caught:
        config.check()
    assert str(caught.value).startswith(named)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"training__policy_loss": "gspo"},
        {"training__policy_loss": "gspo", "training__clip_ratio": 0.0003},
        {"training__loss_agg": "seq-mean-token-sum-norm", "inference__max_turns": 4},
        {"environment__timeout": 3, "environment__workers": 32},
        {"model__tensor_parallel_size": 2, "inference__backend": "vllm"},
        {"training__kl": "loss", "training__kl_coef": 0.1},
        {"training__mini_batch_size": 32},
    ],
)
def test_settings_that_agree_are_taken(changes):
    config = config_with(**changes)
    config.check()
    assert config.unused_settings() == []


@pytest.mark.parametrize("name", ADVANTAGES.names())
def test_every_estimator_can_be_chosen(name):
    size = 8 if ADVANTAGES.get(name).needs_groups else 1
    config = config_with(training__adv_estimator=name, training__group_size=size)
    config.check()
    assert config.training.adv_estimator == name


@pytest.mark.parametrize("name", POLICY_LOSSES.names())
def test_every_policy_loss_can_be_chosen(name):
    one_step = {"training__ppo_epochs": 1, "training__mini_batch_size": 32}
    config = config_with(training__policy_loss=name, **one_step)
    config.check()
    assert config.training.policy_loss == name


def test_an_estimator_of_ones_own_is_held_to_its_own_needs(monkeypatch):
    monkeypatch.setattr(ADVANTAGES, "_specs", dict(ADVANTAGES._specs))

    @register_advantage("in_pairs", needs_groups=True)
    def in_pairs(stream) -> Advantages:
        raise NotImplementedError

    with pytest.raises(
        ConfigError, match="group_size must be at least 2 for the estimator 'in_pai"
    ):
        config_with(training__adv_estimator="in_pairs").check()
    config_with(training__adv_estimator="in_pairs", training__group_size=2).check()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {
                "training__adv_estimator": "grpo",
                "training__group_size": 8,
                "training__gae_lambda": 0.5,
                "training__value_coef": 1,
                "model__critic": "separate",
            },
            [
                ("training.gae_lambda", "training.adv_estimator"),
                ("model.critic", "training.adv_estimator"),
                ("training.value_coef", "training.adv_estimator"),
            ],
        ),
        (
            {"training__adv_estimator": "rloo", "training__group_size": 8, "training__gamma": 0.5},
            [("training.gamma", "training.adv_estimator")],
        ),
        (
            {
                "training__adv_estimator": "opo",
                "training__group_size": 8,
                "training__group_credit": "turn",
            },
            [("training.group_credit", "training.adv_estimator")],
        ),
        (
            {"training__adv_estimator": "gae_turn", "training__discount": "token"},
            [("training.discount", "training.adv_estimator")],
        ),
        (
            {
                "training__policy_loss": "gpg",
                "training__clip_ratio": 0.1,
                "training__ppo_epochs": 1,
                "training__mini_batch_size": 32,
            },
            [("training.clip_ratio", "training.policy_loss")],
        ),
        (
            {"training__ppo_epochs": 1, "training__kl_early_stop": 0.1},
            [("training.kl_early_stop", "training.ppo_epochs")],
        ),
        (
            {"environment__env_id": "llm_gym/Echo-v0", "environment__max_steps": 5},
            [("environment.max_steps", "")],
        ),
        (
            {"inference__bootstrap_at_turn_limit": True},
            [("inference.bootstrap_at_turn_limit", "inference.max_turns")],
        ),
        ({"training__kl_coef": 0.5}, [("training.kl_coef", "training.kl")]),
        ({"model__lora_alpha": 8}, [("model.lora_alpha", "model.lora_rank")]),
        (
            {
                "environment__eval_interval": 0,
                "environment__eval_episodes": 3,
                "environment__stop_at_success": 0.9,
            },
            [
                ("environment.eval_episodes", "environment.eval_interval"),
                ("environment.stop_at_success", "environment.eval_interval"),
            ],
        ),
        (
            {
                "environment__eval_interval": 0,
                "environment__stop_after_no_gain": 3,
                "checkpoint__end_with_best": False,
            },
            [
                ("environment.stop_after_no_gain", "environment.eval_interval"),
                ("checkpoint.end_with_best", "environment.eval_interval"),
            ],
        ),
        (
            {"training__adv_estimator": "reinforce_plus_plus", "training__normalise_values": True},
            [("training.normalise_values", "training.adv_estimator")],
        ),
        ({"ray__num_actors": 2}, [("ray.num_actors", "ray.use_ray")]),
        (
            {"ray__staleness": 1, "training__importance_cap": None},
            [("ray.staleness", "ray.use_ray")],
        ),
        (
            {"warm_start__rate": 0.1, "warm_start__rounds": 3},
            [("warm_start.rounds", "warm_start.player"), ("warm_start.rate", "warm_start.player")],
        ),
        (
            {
                "training__adv_estimator": "grpo",
                "training__group_size": 8,
                "inference__max_turns": 4,
                "inference__bootstrap_at_turn_limit": True,
            },
            [("inference.bootstrap_at_turn_limit", "training.adv_estimator")],
        ),
        ({"environment__train_split": None}, [("environment.train_split", "")]),
        ({"environment__train_split": "test"}, [("environment.train_split", "")]),
        ({"environment__train_split": None, "environment__eval_split": None}, []),
        ({"environment__train_split": None, "environment__eval_interval": 0}, []),
    ],
)
def test_settings_that_were_changed_and_do_nothing_are_named_with_the_cause(changes, named):
    config = config_with(**changes)
    config.check()
    said = config.unused_settings()
    assert len(said) == len(named)
    for sentence, (name, cause) in zip(said, named, strict=True):
        assert sentence.startswith(f"{name}=")
        assert cause in sentence


def test_whatever_may_be_called_unused_is_a_setting():
    off = {
        "training__adv_estimator": "grpo", "environment__eval_interval": 0,
        "training__ppo_epochs": 1, "checkpoint__record_every": 0,
        "environment__env_id": "llm_gym/Echo-v0", "model__model_name": "a",
    }  # fmt: skip
    on = {"ray__use_ray": True, "warm_start__player": "random"}
    known = {
        f"{section}.{name}" for section, own in ConfigStore().to_dict().items() for name in own
    }
    for config in (ConfigStore(), config_with(**off), config_with(**on)):
        groups = [*unused_settings._algorithm(config), *unused_settings._switches(config)]
        assert {name for group in groups for name in group.names} <= known


@pytest.mark.parametrize(
    "name", ["training__learning_rate", "training__value_learning_rate", "warm_start__rate"]
)
def test_a_step_size_above_one_is_a_slip_of_the_pen(name):
    with pytest.raises(ConfigError, match=r"rate must be at most 1, got 1e\+300; from 1e-6 to"):
        config_with(**{name: 1e300}).check()
    config_with(**{name: 1.0}).check()


@pytest.mark.parametrize("device", ["cuda", "cuda:3", "mps"])
def test_a_device_that_is_not_there_is_one_sentence(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=rf"model\.device must be a device of .* '{device}', of"):
        device_of(device)
    assert device_of("cpu") == "cpu"


def test_a_card_beyond_the_last_is_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_of(name) for name in ("cuda", "cuda:1")] == ["cuda", "cuda:1"]
    with pytest.raises(ConfigError, match=r"got 'cuda:2', of which torch .* finds 2"):
        device_of("cuda:2")
