"""The guards of long runs have an effect, each in a tiny run; idle ones change no bit."""

import pytest

from llm_gym_agents.config import ConfigStore
from tests.agents.config.effect_run import differs, play, settings

EVALUATED = settings(
    training__num_iters_per_epoch=4, environment__eval_interval=1, environment__eval_episodes=6
)
GROUPS = settings(training__adv_estimator="rloo", training__group_size=2)
GUARDS = {
    "training.entropy_target": (1.0, "weights", {}),
    "training.normalise_values": (True, "weights", {}),
    "training.resample_zero_variance_groups": (2, "starts", GROUPS),
    "training.group_credit": ("turn", "weights", GROUPS),
    # One token is no whole move: many replies are cut, and some of them are not.
    "training.mask_truncated_replies": (True, "weights", settings(inference__max_tokens=1)),
    # Learned in bfloat16 and sampled in float32, which are not quite the same.
    "training.max_sampler_kl": (1e-6, "weights", settings(model__dtype="bfloat16")),
    "environment.stop_after_no_gain": (1, "metrics", EVALUATED),
    "checkpoint.end_with_best": (
        False, "weights", EVALUATED | settings(training__learning_rate=0.3)
    ),
}  # fmt: skip
"""Each setting: a value that is not the default, where it shows, and beside which others."""


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_changes_the_run(name, tmp_path):
    value, shows, given = GUARDS[name]
    section, setting = name.split(".")
    assert value != getattr(getattr(ConfigStore(), section), setting)
    before = play(given, tmp_path / "off")
    after = play(given | {name: value}, tmp_path / "on")
    assert differs(shows, before, after)


def test_a_detached_critic_is_another_one(tmp_path):
    shared = play({}, tmp_path / "shared")
    detached = play({"model.critic": "detached"}, tmp_path / "detached")
    assert differs("weights", shared, detached)
    assert shared.samples[:8] == detached.samples[:8], "they begin alike"


def test_guards_that_have_nothing_to_do_change_no_bit(tmp_path):
    """On, but with limits that nothing passes."""
    idle = settings(
        training__mask_truncated_replies=True,
        training__max_sampler_kl=1e9,
        environment__stop_after_no_gain=1000,
    )
    plain, guarded = play({}, tmp_path / "plain"), play(idle, tmp_path / "idle")
    assert not differs("weights", plain, guarded)
    assert not differs("samples", plain, guarded)
