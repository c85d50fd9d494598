"""Every setting has an effect: each is changed in a tiny run, and something else comes of it.

``EFFECTS`` says for each setting to what it is changed, beside which other settings, and where
the difference shows. A setting that is not in it fails the sweep. Most differences are those of
two runs of two iterations on ``Echo``; the rest are explained by a test of their own.
"""

import importlib.util
import json
import sys
from typing import Any, NamedTuple

import pytest
import torch

from llm_gym.core.outcome import StopReason
from llm_gym.errors import ConfigError, LLMGymError
from llm_gym.legacy import SimpleGameEnvironment
from llm_gym_agents import build
from llm_gym_agents.build import build_lm
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.engines.base import MissingExtraError
from llm_gym_agents.engines.sglang.engine import SGLangEngine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.rollouts.collect import EpisodeCollector
from llm_gym_agents.rollouts.tasks import Cut, EpisodeTask
from tests.agents.config.config_values import SETTINGS
from tests.agents.config.effect_run import ECHO, GAME, Outcome, configured, differs, play, settings
from tests.agents.config.test_guards_have_effect import GUARDS
from tests.agents.config.test_parallel_settings import (  # noqa: F401 - named below
    test_processes_that_nobody_started_are_an_error,
    test_processes_wait_for_one_another_as_long_as_the_config_says,
)
from tests.agents.engines.sglang.stand_in import FixedSampler, StandIn
from tests.agents.odd import Sleeping
from tests.agents.players import player_at_chance
from tests.agents.scripted import ScriptedEngine
from tests.agents.tiny import save_tiny


class Effect(NamedTuple):
    """A value that is not the default, and where it shows."""

    value: Any
    shows: str = "weights"
    given: dict[str, Any] = {}
    reward_fn: Any = None


KL = settings(training__use_kl_in_loss=True, training__kl_coef=0.5)
ADAPTIVE = KL | settings(training__adaptive_kl=True)
LONG_STEPS = settings(training__learning_rate=0.05, training__ppo_epochs=4)
EVALUATED = settings(environment__eval_interval=1, environment__eval_episodes=6)
CURRICULUM = settings(
    environment__curriculum=True,
    environment__env_kwargs={"rules": "system"},
    training__num_iters_per_epoch=3,
)
EPOCHS = settings(training__num_epochs=3, training__num_iters_per_epoch=1)
SPLITS = settings(environment__env_id=GAME, environment__env_kwargs={"rules": "system"})
WARM = settings(warm_start__player="random", warm_start__turns=16, warm_start__steps=2)

EFFECTS = {
    "warm_start.player": Effect("random", given=WARM | settings(warm_start__player="none")),
    "warm_start.turns": Effect(8, "metrics", WARM),
    "warm_start.steps": Effect(3, given=WARM),
    "warm_start.batch_size": Effect(4, given=WARM),
    "warm_start.rate": Effect(1e-2, given=WARM),
    "model.critic": Effect("separate"),
    "model.compute_dtype": Effect("bfloat16"),
    "inference.num_envs": Effect(4, "rows"),
    "inference.lot_size": Effect(2, "rows"),
    "inference.max_tokens": Effect(1, "metrics"),
    "inference.temperature": Effect(0.5, "samples"),
    "inference.context": Effect("observation", "samples"),
    "inference.system_prompt": Effect("Say gold.", "samples"),
    "inference.multi_turn": Effect(False, "starts"),
    "inference.max_turns": Effect(1, "starts"),
    "inference.turn_limit_is_cut": Effect(True, given=settings(inference__max_turns=1)),
    "training.num_epochs": Effect(2, "metrics"),
    "training.num_iters_per_epoch": Effect(3, "metrics"),
    "training.batch_size": Effect(4, "starts"),
    "training.group_size": Effect(
        4, "starts", settings(training__adv_estimator="rloo", training__group_size=2)
    ),
    "training.ppo_epochs": Effect(3),
    "training.mini_batch_size": Effect(2),
    "training.micro_batch_tokens": Effect(60, "passes"),
    "training.shuffle": Effect(False),
    "training.seed": Effect(5, "starts"),
    "training.adv_estimator": Effect("reinforce_plus_plus"),
    "training.gamma": Effect(0.5),
    "training.lam": Effect(0.0),
    "training.discount": Effect("token", given=settings(training__gamma=0.5)),
    "training.whiten_advantages": Effect(False),
    "training.reward_mode": Effect("add", reward_fn=lambda episode: float(episode.num_turns)),
    "training.policy_loss": Effect("cispo"),
    "training.clip_ratio": Effect(0.01, given=LONG_STEPS),
    "training.clip_ratio_high": Effect(0.001, given=LONG_STEPS),
    "training.dual_clip": Effect(1.001, given=LONG_STEPS),
    "training.loss_agg": Effect("seq-mean-token-sum"),
    "training.importance_cap": Effect(0.5),
    "training.entropy_coef": Effect(0.1),
    "training.value_coef": Effect(0.1),
    "training.value_clip": Effect(0.001),
    "training.use_kl_in_reward": Effect(True, given=settings(training__kl_coef=0.5)),
    "training.use_kl_in_loss": Effect(True, given=settings(training__kl_coef=0.5)),
    "training.kl_coef": Effect(0.9, given=KL),
    "training.kl_kind": Effect("k1", given=KL),
    "training.adaptive_kl": Effect(True, "metrics", KL),
    "training.target_kl": Effect(9.0, "metrics", ADAPTIVE),
    "training.kl_horizon": Effect(20.0, "metrics", ADAPTIVE),
    "training.kl_early_stop": Effect(1e-6, "metrics", LONG_STEPS),
    "training.learning_rate": Effect(0.02),
    "training.value_learning_rate": Effect(0.1),
    "training.lr_schedule": Effect("linear"),
    "training.warmup_iters": Effect(2, given=settings(training__num_iters_per_epoch=3)),
    "training.critic_warmup_iters": Effect(1),
    "training.weight_decay": Effect(0.5),
    "training.adam_beta1": Effect(0.5),
    "training.adam_beta2": Effect(0.5),
    "training.adam_eps": Effect(1e-2),
    "training.max_grad_norm": Effect(0.01),
    "checkpoint.save_interval": Effect(2, "files", EPOCHS),
    "checkpoint.keep_last_n": Effect(1, "files", EPOCHS | {"checkpoint.save_interval": 1}),
    "checkpoint.save_best": Effect(False, "files", EPOCHS | EVALUATED),
    "checkpoint.record_every": Effect(1, "files"),
    "checkpoint.record_episodes": Effect(2, "recorded"),
    "environment.env_id": Effect("llm_gym/Memory-v0", "starts", SPLITS),
    "environment.env_kwargs": Effect({"rules": "system", "words": 2}, "starts"),
    "environment.train_split": Effect("dev", "starts", SPLITS),
    "environment.eval_interval": Effect(1, "files", EVALUATED | {"environment.eval_interval": 2}),
    "environment.eval_episodes": Effect(3, "evaluated", EVALUATED),
    "environment.eval_greedy": Effect(True, "evaluated", EVALUATED),
    "environment.eval_split": Effect(
        None, "evaluated", SPLITS | EVALUATED | settings(inference__max_turns=1)
    ),
    "environment.stop_at_success": Effect(0.0, "metrics", EVALUATED),
    "environment.curriculum": Effect(
        True, "starts", CURRICULUM | settings(environment__curriculum=False)
    ),
    "environment.curriculum_target": Effect(0.01, "metrics", CURRICULUM),
    "environment.curriculum_step": Effect(
        0.5, "metrics", CURRICULUM | settings(environment__curriculum_target=0.01)
    ),
}
"""Settings whose effect shows in a run, and how."""


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    """Return the outcome of a run with these settings; each is run once."""
    known = {}

    def get(given, reward_fn):
        key = (repr(given), reward_fn)
        if key not in known:
            known[key] = play(given, tmp_path_factory.mktemp("base"), reward_fn)
        return known[key]

    return get


@pytest.mark.parametrize("name", EFFECTS)
def test_a_changed_setting_changes_the_run(name, baseline, tmp_path):
    effect = EFFECTS[name]
    section, setting = name.split(".")
    assert effect.value != getattr(getattr(ConfigStore(), section), setting)
    before = baseline(effect.given, effect.reward_fn)
    after = play(effect.given | {name: effect.value}, tmp_path, effect.reward_fn)
    assert differs(effect.shows, before, after)


def test_the_same_settings_give_the_same_run(baseline, tmp_path):
    same = play({}, tmp_path)
    for shows in Outcome._fields:
        assert not differs(shows, baseline({}, None), same), shows


# --- settings that show elsewhere --------------------------------------------------------------

ELSEWHERE = {
    "warm_start.file": "test_a_file_of_conversations_is_imitated",
    "warm_start.threshold": "test_a_threshold_decides_whether_a_given_model_is_taught",
    "model.model_name": "test_a_model_is_loaded_from_where_the_config_says",
    "model.local_path": "test_a_model_is_loaded_from_where_the_config_says",
    "model.dtype": "test_weights_have_the_precision_that_was_asked_for",
    "model.device": "test_a_device_that_is_not_there_is_an_error",
    "model.head": "test_a_kernel_or_an_optimizer_that_is_not_installed_is_an_error",
    "training.optimizer": "test_a_kernel_or_an_optimizer_that_is_not_installed_is_an_error",
    "training.reward_timeout": "test_limits_of_a_reward_function_reach_it",
    "training.reward_retries": "test_limits_of_a_reward_function_reach_it",
    "training.reward_concurrency": "test_limits_of_a_reward_function_reach_it",
    "inference.top_p": "test_filters_are_refused_in_training",
    "inference.top_k": "test_filters_are_refused_in_training",
    "inference.min_p": "test_filters_are_refused_in_training",
    "model.trust_remote_code": "test_only_a_trusted_model_may_run_its_code",
    "model.lora_rank": "test_adapters_are_all_that_is_trained_and_alpha_scales_them",
    "model.lora_alpha": "test_adapters_are_all_that_is_trained_and_alpha_scales_them",
    "model.gradient_checkpointing": "test_checkpointing_saves_memory_and_changes_no_weight",
    "model.tensor_parallel_size": "test_a_served_engine_is_told_how_to_serve",
    "inference.backend": "test_another_backend_is_another_engine",
    "inference.engine": "test_settings_of_the_engine_reach_it",
    "inference.barrier": "test_without_a_barrier_some_move_while_others_wait",
    "parallel.mode": "test_processes_that_nobody_started_are_an_error",
    "parallel.timeout": "test_processes_wait_for_one_another_as_long_as_the_config_says",
    "checkpoint.output_dir": "test_a_run_lives_in_its_folder_and_goes_on_there",
    "checkpoint.resume": "test_a_run_lives_in_its_folder_and_goes_on_there",
    "checkpoint.wandb_project": "test_a_project_without_wandb_is_an_error",
    "environment.max_steps": "test_a_base_environment_reads_its_limit_in_the_config",
    "environment.workers": "test_workers_play_in_processes_that_may_be_given_up",
    "environment.timeout": "test_workers_play_in_processes_that_may_be_given_up",
}
"""The others, and the test that shows each."""


def test_every_setting_is_shown_to_have_an_effect():
    apart = ("ray",)  # test_ray_settings.py
    known = [f"{section}.{name}" for section, name, _ in SETTINGS if section not in apart]
    shown = [*EFFECTS, *ELSEWHERE, *GUARDS]
    assert sorted(shown) == sorted(known), "give a new setting an entry in EFFECTS or ELSEWHERE"
    assert all(callable(globals().get(test)) for test in ELSEWHERE.values())


@pytest.mark.parametrize("name", ["model.model_name", "model.local_path"])
def test_a_model_is_loaded_from_where_the_config_says(name, tmp_path):
    folder = save_tiny(tmp_path / "model", hidden_size=16)
    lm, tokenizer = build_lm(configured({name: folder}, tmp_path), ECHO)
    assert lm.config.hidden_size == 16
    assert tokenizer.chat_template is not None


@pytest.mark.parametrize("folder", [True, False])
def test_weights_have_the_precision_that_was_asked_for(folder, tmp_path):
    given = {"model.model_name": save_tiny(tmp_path / "model")} if folder else {}
    lm, _ = build_lm(configured(given | {"model.dtype": "bfloat16"}, tmp_path), ECHO)
    assert lm.dtype == torch.bfloat16


@pytest.mark.parametrize("folder", [True, False])
def test_a_device_that_is_not_there_is_an_error(folder, tmp_path):
    given = {"model.model_name": save_tiny(tmp_path / "model")} if folder else {}
    config = configured(given | {"model.device": "cuda:63"}, tmp_path)
    with pytest.raises((LLMGymError, RuntimeError, AssertionError), match=r"(?i)cuda"):
        build_lm(config, ECHO)


def test_only_a_trusted_model_may_run_its_code(tmp_path, monkeypatch):
    folder, told = save_tiny(tmp_path / "model"), []
    load = build.load_model
    monkeypatch.setattr(
        build,
        "load_model",
        lambda path, **how: told.append(how.pop("trust_remote_code")) or load(path, **how),
    )
    for trust in (False, True):
        given = {"model.model_name": folder, "model.trust_remote_code": trust}
        build_lm(configured(given, tmp_path), ECHO)
    assert told == [False, True]


def test_adapters_are_all_that_is_trained_and_alpha_scales_them(tmp_path):
    plain = play({"model.lora_rank": 2}, tmp_path / "plain")
    assert any("lora_" in name for name in plain.weights)
    loud = play({"model.lora_rank": 2, "model.lora_alpha": 64.0}, tmp_path / "loud")
    assert plain.metrics[0]["policy/entropy"] != loud.metrics[0]["policy/entropy"]
    lm, _ = player_at_chance(ECHO, words=4, max_turns=2)
    untouched = lm.state_dict()["model.embed_tokens.weight"]
    assert plain.weights["lm.model.embed_tokens.weight"].equal(untouched)


def test_checkpointing_saves_memory_and_changes_no_weight(baseline, tmp_path):
    given = {"model.gradient_checkpointing": True}
    after = play(given, tmp_path)
    for name, weight in baseline({}, None).weights.items():
        torch.testing.assert_close(after.weights[name], weight, atol=1e-4, rtol=1e-3)
    lm, _ = build_lm(configured(given, tmp_path), ECHO)
    assert lm.is_gradient_checkpointing


def built_engine(given, folder):
    lm, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
    return build.build_engine(configured(given, folder), lm, tokenizer)


def test_another_backend_is_another_engine(tmp_path):
    server = StandIn(FixedSampler())
    given = settings(inference__backend="sglang", inference__engine={"url": server.url})
    engine = built_engine(given, tmp_path)
    assert isinstance(engine, SGLangEngine)
    assert isinstance(built_engine({}, tmp_path), TransformersEngine)
    engine.close()
    server.close()


@pytest.mark.parametrize("backend", ["vllm", "sglang"])
def test_a_backend_that_is_not_installed_is_an_error(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=f"needs {backend}"):
        built_engine({"inference.backend": backend}, tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("inference.top_p", 0.9), ("inference.top_k", 5), ("inference.min_p", 0.1)],
)
def test_filters_are_refused_in_training(name, value, tmp_path):
    with pytest.raises(ConfigError, match=rf"{name} must be .* to train, got {value}"):
        configured({name: value}, tmp_path).check()


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
@pytest.mark.parametrize(
    ("name", "value", "package"),
    [("model.head", "liger", "liger-kernel"), ("training.optimizer", "adamw_8bit", "bitsandbytes")],
)
def test_a_kernel_or_an_optimizer_that_is_not_installed_is_an_error(name, value, package, tmp_path):
    if importlib.util.find_spec(package.replace("-", "_")):
        pytest.skip(f"{package} is installed")
    with pytest.raises(LLMGymError, match=f"{name}='{value}' needs {package}"):
        play({name: value}, tmp_path)


def test_limits_of_a_reward_function_reach_it(tmp_path):
    tries = []

    def shy(episode):
        """Fail at the first call of each episode."""
        tries.append(episode.episode_id)
        if tries.count(episode.episode_id) < 2:
            raise RuntimeError("not yet")
        return 1.0

    given = settings(
        training__reward_retries=1, training__reward_timeout=20.0, training__reward_concurrency=2
    )
    rows = play(given, tmp_path, shy).metrics
    assert rows[0]["reward/mean"] == 1.0
    assert len(tries) == 2 * len(set(tries))
    with pytest.raises(LLMGymError, match="not yet"):
        play({}, tmp_path / "again", lambda episode: (_ for _ in ()).throw(RuntimeError("not yet")))


def test_a_served_engine_is_told_how_to_serve(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(build, "load_engine", lambda path, backend, how: told.append(how) or [None])
    given = settings(
        inference__backend="vllm",
        model__tensor_parallel_size=2,
        model__dtype="bfloat16",
        model__trust_remote_code=True,
        inference__engine={"eager": True},
    )
    built_engine(given, tmp_path)
    wanted = {"tensor_parallel_size": 2, "dtype": "bfloat16", "trust_remote_code": True}
    assert told == [{**wanted, "eager": True}]
    with pytest.raises(ConfigError, match=r"model\.tensor_parallel_size above 1 needs"):
        play({"model.tensor_parallel_size": 2}, tmp_path)


def test_settings_of_the_engine_reach_it(tmp_path):
    engine = built_engine({"inference.engine": {"max_rows": 3, "prefix_cache": False}}, tmp_path)
    assert (engine._decoder.pool.count, engine._decoder.pool.keep) == (3, False)
    assert built_engine({}, tmp_path)._decoder.pool.count != 3
    for wrong in ({"device": "cpu"}, {"gpu_memory_utilization": 0.5}):
        with pytest.raises(ConfigError, match=f"transformers has no setting '{next(iter(wrong))}'"):
            built_engine({"inference.engine": wrong}, tmp_path)


@pytest.mark.parametrize(
    ("backend", "said", "waits"),
    [
        ("transformers", None, True),
        ("transformers", False, False),
        ("vllm", None, False),
        ("sglang", None, False),
        ("vllm", True, True),
    ],
)
def test_a_barrier_is_what_was_said_or_what_suits_the_backend(backend, said, waits, tmp_path):
    config = configured({"inference.backend": backend, "inference.barrier": said}, tmp_path)
    _, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
    assert build.build_policy(config, ScriptedEngine(), tokenizer).barrier is waits


def test_without_a_barrier_some_move_while_others_wait(tmp_path):
    def waits(given):
        config = configured(given, tmp_path)
        _, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
        engine = ScriptedEngine(lambda running: running[:1])
        policy = build.build_policy(config, engine, tokenizer)
        pool = build.build_pool(config, ECHO, rows=8)
        policy.texts = pool.texts
        return (policy(pool.reset())["cut"] == Cut.WAIT).sum().item()

    assert waits({}) == 0
    assert waits({"inference.barrier": False}) == 7


def test_a_run_lives_in_its_folder_and_goes_on_there(tmp_path):
    first = play({}, tmp_path / "run")
    assert {"config.json", "metrics.csv", "metrics.jsonl"} <= first.files
    longer = {"checkpoint.resume": True, "training.num_iters_per_epoch": 3}
    second = play(longer, tmp_path / "run")
    assert second.metrics[:2] == first.metrics
    assert len(second.metrics) == 3
    with pytest.raises(ConfigError):
        play({}, tmp_path / "run")


def test_a_project_without_wandb_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"checkpoint\.wandb_project needs wandb"):
        play({"checkpoint.wandb_project": "mine"}, tmp_path)


def test_a_base_environment_reads_its_limit_in_the_config(tmp_path):
    config = configured({"environment.max_steps": 3}, tmp_path)
    assert SimpleGameEnvironment(config.environment).max_steps == 3
    pool = build.build_pool(config, SimpleGameEnvironment, rows=1)
    assert pool._rows.envs[0].unwrapped.environment.max_steps == 3


def test_workers_play_in_processes_that_may_be_given_up(tmp_path):
    given = settings(environment__workers=1, environment__timeout=1.5)
    pool = build.build_pool(configured(given, tmp_path), Sleeping, rows=1)
    try:
        lm, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
        config = configured({}, tmp_path)
        policy = build.build_policy(config, build.build_engine(config, lm, tokenizer), tokenizer)
        episodes = EpisodeCollector(pool, policy).collect([EpisodeTask(0, 0)]).all_episodes
    finally:
        pool.close()
    assert [episode.stop_reason for episode in episodes] == [StopReason.ERROR]
    with pytest.raises(ConfigError, match="timeout needs"):
        configured(settings(environment__timeout=0.5), tmp_path).check()


def test_a_file_of_conversations_is_imitated(tmp_path):
    losses = []
    for word in ("red", "blue"):
        talk = [{"role": "user", "content": "Say red."}, {"role": "assistant", "content": word}]
        (tmp_path / f"{word}.jsonl").write_text(json.dumps({"messages": talk}) + "\n")
        given = WARM | settings(
            warm_start__player="file", warm_start__file=str(tmp_path / f"{word}.jsonl")
        )
        losses.append(play(given, tmp_path / word).metrics[0]["warm_start/loss"])
    assert losses[0] != losses[1]
    with pytest.raises(ConfigError, match=r"warm_start\.file must name a file"):
        play({"warm_start.player": "file"}, tmp_path / "none")


@pytest.mark.parametrize(("threshold", "taught"), [(0.001, False), (1.0, True)])
def test_a_threshold_decides_whether_a_given_model_is_taught(threshold, taught, tmp_path):
    given = WARM | settings(warm_start__player="auto", warm_start__threshold=threshold)
    given["inference.temperature"] = 20.0  # hot enough for many a word salad
    assert ("warm_start/loss" in play(given, tmp_path).metrics[0]) == taught
