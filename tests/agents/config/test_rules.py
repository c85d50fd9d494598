"""Settings that contradict each other are found before the run; those without effect are named."""

import contextlib
import json

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo import ADVANTAGES, Advantages, register_advantage
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.rules import unused_settings
from llm_gym_agents.trainer.build import device_of
from tests.agents.checks import is_one_line


def given(words):
    """Return a config with settings as "training.kl=loss inference.max_turns=4"."""
    config = ConfigStore()
    for word in words.split():
        name, _, value = word.partition("=")
        section, setting = name.split(".")
        with contextlib.suppress(ValueError):
            value = json.loads(value)
        setattr(getattr(config, section), setting, value)
    return config


RATES = ("training.learning_rate", "training.value_learning_rate", "warm_start.rate")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("training.adv_estimator=grpo", "training.group_size"),
        ("training.group_size=5", "training.batch_size"),
        ("training.resample_zero_variance_groups=1", "training.group_size"),
        ("training.mini_batch_size=33", "training.mini_batch_size"),
        ("training.warmup_iters=100", "training.warmup_iters"),
        ("training.critic_warmup_iters=6 training.num_epochs=2 training.num_iters_per_epoch=3",
         "training.critic_warmup_iters"),
        ("training.policy_loss=gspo training.clip_ratio=0.1", "training.clip_ratio"),
        ("training.policy_loss=gspo training.clip_ratio=0.2", "training.clip_ratio"),
        ("training.policy_loss=gspo training.max_learned_turns=2", "training.max_learned_turns"),
        ("training.loss_agg=seq-mean-token-sum-norm", "inference.max_turns"),
        ("environment.workers=33", "environment.workers"),
        ("environment.timeout=3", "environment.timeout"),
        ('environment.env_id=a environment.mix={"b":1}', "environment.env_id"),
        ('environment.mix={"b":1} environment.env_kwargs={"b":2}', "environment.env_kwargs.b"),
        ("ray.use_ray=true ray.staleness=1 training.importance_cap=null",
         "training.importance_cap"),
        ("ray.num_actors=2", "ray.num_actors"),
        ("ray.staleness=1", "ray.staleness"),
        *((f"{name}=1e300", name) for name in RATES),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_refused(words, named):
    with pytest.raises(ConfigError, check=is_one_line) as caught:
        given(words).check()
    assert str(caught.value).startswith(named)


@pytest.mark.parametrize(
    "words",
    [
        "training.policy_loss=gspo",
        "training.policy_loss=gspo training.clip_ratio=0.0003",
        "training.loss_agg=seq-mean-token-sum-norm inference.max_turns=4",
        "environment.timeout=3 environment.workers=32",
        "training.kl=loss training.kl_coef=0.1",
        "training.mini_batch_size=32",
        "training.learning_rate=1.0 training.value_learning_rate=1.0",
    ],
)
def test_settings_that_agree_are_taken(words):
    config = given(words)
    config.check()
    assert unused_settings(config, config.diff()) == []


@pytest.mark.parametrize(
    ("words", "chosen", "named"),
    [
        ("training.batch_size=3 training.group_size=2", "training.group_size", None),
        ("training.batch_size=3 training.group_size=2",
         "training.batch_size training.group_size", "training.batch_size"),
        ("training.warmup_iters=200", "training.warmup_iters", None),
        ("training.learning_rate=7", "training.learning_rate", "training.learning_rate"),
    ],
)  # fmt: skip
def test_a_light_check_ignores_conflicts_that_defaults_can_resolve(words, chosen, named):
    config = given(words)
    with pytest.raises(ConfigError, match=named) if named else contextlib.nullcontext():
        config.check(light=True, chosen=set(chosen.split()))


def test_a_registered_estimator_can_require_groups(monkeypatch):
    monkeypatch.setattr(ADVANTAGES, "_specs", dict(ADVANTAGES._specs))

    @register_advantage("in_pairs", needs_groups=True)
    def in_pairs(stream) -> Advantages:
        raise NotImplementedError

    with pytest.raises(ConfigError, match="group_size"):
        given("training.adv_estimator=in_pairs").check()
    given("training.adv_estimator=in_pairs training.group_size=2").check()


GRPO = "training.adv_estimator=grpo training.group_size=8"
NEVER = "environment.eval_interval=0"


@pytest.mark.parametrize(
    ("words", "named", "cause"),
    [
        (f"{GRPO} training.gae_lambda=0.5 training.value_coef=1 model.critic=separate",
         "training.gae_lambda model.critic training.value_coef", "training.adv_estimator"),
        (f"{GRPO} training.gamma=0.5", "training.gamma", "training.adv_estimator"),
        ("environment.env_id=llm_gym/Echo-v0 environment.max_steps=5", "environment.max_steps", ""),
        ("inference.bootstrap_at_turn_limit=true",
         "inference.bootstrap_at_turn_limit", "inference.max_turns"),
        (f"{GRPO} inference.max_turns=4 inference.bootstrap_at_turn_limit=true",
         "inference.bootstrap_at_turn_limit", "training.adv_estimator"),
        ("training.kl_coef=0.5", "training.kl_coef", "training.kl"),
        (f"{NEVER} environment.eval_episodes=3 environment.stop_at_success=0.9",
         "environment.eval_episodes environment.stop_at_success", "environment.eval_interval"),
        (f"{NEVER} checkpoint.end_with_best=false",
         "checkpoint.end_with_best", "environment.eval_interval"),
        ("training.adv_estimator=reinforce_plus_plus training.normalise_values=true",
         "training.normalise_values", "training.adv_estimator"),
        ("warm_start.rate=0.1 warm_start.rounds=3",
         "warm_start.rounds warm_start.rate", "warm_start.player"),
        ("environment.train_split=null", "environment.train_split", ""),
        ("environment.train_split=test", "environment.train_split", ""),
        ("environment.train_split=null environment.eval_split=null", "", ""),
        (f"environment.train_split=null {NEVER}", "", ""),
    ],
)  # fmt: skip
def test_changed_settings_without_effect_are_named_with_the_cause(words, named, cause):
    config = given(words)
    config.check()
    sentences = unused_settings(config, config.diff())
    assert [sentence.partition("=")[0] for sentence in sentences] == named.split()
    assert all(cause in sentence for sentence in sentences)


@pytest.mark.parametrize("device", ["cuda", "cuda:3", "mps"])
def test_a_missing_device_is_refused(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"model\.device"):
        device_of(device)
    assert device_of("cpu") == "cpu"


def test_a_gpu_index_beyond_the_last_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_of(name) for name in ("cuda", "cuda:1")] == ["cuda", "cuda:1"]
    with pytest.raises(ConfigError, match="cuda:2"):
        device_of("cuda:2")


def test_adapters_on_random_weights_are_noted():
    config = given("model.lora_rank=4")
    (note,) = unused_settings(config, config.diff())
    assert note.startswith("model.lora_rank=4 keeps the weights of the embedded model frozen")
    config.model.model_name = "somebody/model"
    assert unused_settings(config, config.diff()) == []
