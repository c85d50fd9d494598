"""Every setting has an effect: each is changed in a tiny run, and the outcome differs.

``EFFECTS`` holds the other value, the settings beside it and the part of the outcome that differs;
``ELSEWHERE`` names the tests that show the rest.
"""

from typing import Any, NamedTuple

import pytest

from llm_gym_agents.config import ConfigStore
from tests.agents.config import test_model_settings as model
from tests.agents.config import test_rules as rules
from tests.agents.config import test_run_settings as run
from tests.agents.config.config_values import SETTINGS
from tests.agents.config.effect_run import GAME, WARM, Outcome, differs, play, settings
from tests.agents.model import test_precision as precision
from tests.agents.rollouts import test_mix as mix
from tests.agents.trainer import test_warm_start as warm
from tests.agents.trainer import test_what_is_learned_from as stops
from tests.agents.trainer.on_ray import test_cluster, test_faults
from tests.agents.trainer.processes import test_ahead
from tests.agents.trainer.processes import test_weight_transport as transport


class Effect(NamedTuple):
    """A value that is not the default, and where it shows."""

    value: Any
    shows: str = "weights"
    given: dict[str, Any] = {}


ONCE = settings(training__num_iters_per_epoch=1)
TWICE = settings(training__num_iters_per_epoch=2)
KL = TWICE | settings(training__kl="loss", training__kl_coef=0.5)
LONG_STEPS = settings(training__learning_rate=0.05, training__ppo_epochs=4, training__max_kl=1e9)
EVALUATED = settings(environment__eval_interval=1, environment__eval_episodes=6)
EPOCHS = settings(training__num_epochs=3, training__num_iters_per_epoch=1)
GROUPS = settings(training__adv_estimator="rloo", training__group_size=2)
SPLITS = settings(environment__env_id=GAME, environment__env_kwargs={"rules": "system"})

EFFECTS = {
    "warm_start.player": Effect("random", given=WARM | settings(warm_start__player="none")),
    "warm_start.turns": Effect(8, "metrics", WARM),
    "warm_start.steps": Effect(3, given=WARM),
    "warm_start.rate": Effect(1e-2, given=WARM),
    "model.critic": Effect("separate"),
    "model.dtype": Effect("bfloat16"),
    "inference.num_envs": Effect(4, "rows"),
    "inference.isolated_batch_size": Effect(2, "rows"),
    "inference.max_tokens": Effect(1, "metrics"),
    "inference.temperature": Effect(0.5, "samples"),
    "inference.context": Effect("observation", "samples", TWICE),
    "inference.stop": Effect(["a", "e", "o"], "metrics"),
    "inference.system_prompt": Effect("Say gold, then silver, then nothing.", "samples", TWICE),
    "inference.max_turns": Effect(1, "starts"),
    "inference.bootstrap_at_turn_limit": Effect(
        True, given=TWICE | settings(inference__max_turns=1)
    ),
    "training.num_epochs": Effect(2, "metrics"),
    "training.num_iters_per_epoch": Effect(3, "metrics"),
    "training.batch_size": Effect(4, "starts"),
    "training.group_size": Effect(4, "starts", GROUPS),
    "training.ppo_epochs": Effect(3, given=settings(training__max_kl=1e9)),
    "training.mini_batch_size": Effect(2),
    "training.micro_batch_tokens": Effect(60, "passes"),
    "training.seed": Effect(5, "starts"),
    "training.adv_estimator": Effect("reinforce_plus_plus"),
    "training.gamma": Effect(0.5),
    "training.gae_lambda": Effect(0.0),
    "training.estimator_settings": Effect(
        {"norm_by_std": False},
        given=settings(training__adv_estimator="grpo", training__group_size=4),
    ),
    "training.policy_loss": Effect("cispo", given=LONG_STEPS),
    "training.loss_settings": Effect({"dual_clip": 1.001}, given=LONG_STEPS),
    "training.clip_ratio": Effect(0.01, given=LONG_STEPS),
    "training.loss_agg": Effect("seq-mean-token-sum"),
    "training.importance_cap": Effect(0.5),
    "training.entropy_coef": Effect(0.1),
    "training.value_coef": Effect(0.1),
    "training.kl": Effect("reward", given=KL),
    "training.kl_coef": Effect(0.9, given=KL),
    "training.max_kl": Effect(1e-6, given=LONG_STEPS),
    "training.learning_rate": Effect(0.02),
    "training.value_learning_rate": Effect(0.1),
    "training.lr_schedule": Effect("linear", given=TWICE),
    "training.warmup_iters": Effect(2, given=settings(training__num_iters_per_epoch=3)),
    "training.critic_warmup_iters": Effect(1, given=TWICE),
    "training.adam_eps": Effect(1e-2),
    "training.max_grad_norm": Effect(0.01),
    "checkpoint.save_interval": Effect(2, "files", EPOCHS | {"checkpoint.save_interval": 1}),
    "checkpoint.keep_last_n": Effect(1, "files", EPOCHS | {"checkpoint.save_interval": 1}),
    "checkpoint.record_every": Effect(1, "files", TWICE),
    "environment.env_id": Effect("llm_gym/Memory-v0", "starts", SPLITS),
    "environment.mix": Effect({GAME: 1, "llm_gym/Memory-v0": 1}, "starts", SPLITS),
    "environment.env_kwargs": Effect({"rules": "system", "words": 2}, "starts"),
    "environment.train_split": Effect("dev", "starts", SPLITS),
    "environment.eval_interval": Effect(
        1, "files", EVALUATED | TWICE | {"environment.eval_interval": 2}
    ),
    "environment.eval_episodes": Effect(3, "evaluated", EVALUATED),
    "environment.eval_split": Effect(
        None, "evaluated", SPLITS | EVALUATED | settings(inference__max_turns=1)
    ),
    "environment.stop_at_success": Effect(0.0, "metrics", EVALUATED | TWICE),
    # Of long runs.
    "training.normalise_values": Effect(True),
    "training.resample_zero_variance_groups": Effect(2, "starts", GROUPS),
    # One token is no whole move: many replies are cut, and some of them are not.
    "training.mask_truncated_replies": Effect(True, given=settings(inference__max_tokens=1)),
    "training.max_learned_turns": Effect(1),
    "checkpoint.end_with_best": Effect(
        False,
        given=EVALUATED | settings(training__num_iters_per_epoch=4, training__learning_rate=0.3),
    ),
}
"""Settings with an effect on a run, and what shows it."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Return the outcome of a run with these settings; each is run once."""
    known = {}

    def get(given):
        key = repr(sorted(given.items()))
        if key not in known:
            known[key] = play(given, tmp_path_factory.mktemp("base"))
        return known[key]

    return get


@pytest.mark.parametrize("name", EFFECTS)
def test_a_changed_setting_changes_the_run(name, outcome):
    effect = EFFECTS[name]
    section, setting = name.split(".")
    assert effect.value != getattr(getattr(ConfigStore(), section), setting)
    given = ONCE | effect.given
    assert differs(effect.shows, outcome(given), outcome(given | {name: effect.value}))


def test_the_same_settings_give_the_same_run(outcome, tmp_path):
    same = play({}, tmp_path)
    for shows in Outcome._fields:
        assert not differs(shows, outcome({}), same), shows


# --- settings that show elsewhere --------------------------------------------------------------

ELSEWHERE = {
    model.test_a_model_is_loaded_from_where_the_config_says: ["model.model_name"],
    model.test_the_tiny_model_has_the_layers_of_the_config: ["model.tiny_layers"],
    rules.test_a_missing_device_is_refused: ["model.device"],
    model.test_an_optimizer_that_is_not_installed_is_an_error: ["training.optimizer"],
    model.test_only_a_trusted_model_may_run_its_code: ["model.trust_remote_code"],
    warm.test_a_warm_start_trains_adapters_and_not_their_base: ["model.lora_rank"],
    precision.test_checkpointed_layers_are_computed_again_and_give_the_same_gradient: [
        "model.gradient_checkpointing"
    ],
    model.test_the_backend_setting_selects_the_engine: ["inference.backend"],
    model.test_settings_of_the_engine_reach_it: ["inference.engine"],
    model.test_variables_of_the_chat_template_reach_it: ["inference.template_options"],
    run.test_a_parallel_mode_without_started_processes_is_an_error: ["parallel.mode"],
    run.test_unusable_replies_lead_to_more_warm_start_rounds: ["warm_start.rounds"],
    stops.test_a_run_stopped_by_sigterm_resumes_to_the_same_weights: [
        "checkpoint.output_dir",
        "checkpoint.resume",
    ],
    run.test_a_tracker_that_is_not_installed_is_an_error: ["checkpoint.tracker"],
    mix.test_a_run_by_signal_plays_less_of_what_is_always_lost: ["environment.mix_by"],
    run.test_a_base_environment_reads_its_limit_in_the_config: ["environment.max_steps"],
    run.test_a_worker_that_exceeds_the_timeout_is_given_up: [
        "environment.workers",
        "environment.timeout",
    ],
    transport.test_actors_on_the_learners_gpu_get_handles_and_others_use_the_store: [
        "ray.use_ray",
        "ray.num_actors",
    ],
    test_ahead.test_playing_runs_ahead_by_the_staleness_setting: ["ray.staleness"],
    test_cluster.test_an_address_connects_to_the_running_cluster: ["ray.address"],
    test_cluster.test_more_actors_or_gpus_than_the_cluster_has_are_refused: [
        "ray.num_gpus_per_actor"
    ],
    test_faults.test_an_environment_that_hangs_is_cut_at_its_deadline: ["ray.timeout"],
}
"""Tests of their own, and the settings that each shows to have an effect."""


def test_every_setting_is_shown_to_have_an_effect():
    known = [f"{section}.{name}" for section, name in SETTINGS]
    shown = [*EFFECTS, *(name for names in ELSEWHERE.values() for name in names)]
    assert sorted(shown) == sorted(known), "give a new setting an entry in EFFECTS or ELSEWHERE"


def test_a_detached_critic_is_another_one(outcome, tmp_path):
    shared = outcome({})
    detached = play({"model.critic": "detached"}, tmp_path / "detached")
    assert differs("weights", shared, detached)
    assert shared.samples[:8] == detached.samples[:8], "they begin alike"


def test_a_guard_that_has_nothing_to_do_changes_no_bit(outcome, tmp_path):
    idle = settings(training__mask_truncated_replies=True)
    plain, guarded = outcome({}), play(idle, tmp_path / "idle")
    assert not differs("weights", plain, guarded)
    assert not differs("samples", plain, guarded)
