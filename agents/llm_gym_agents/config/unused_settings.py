"""Settings that were changed and have no effect, because of another setting.

That is no error: a recipe's discount should not stop anyone from trying an estimator without one.
But the user must know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llm_gym_agents.algo import get_advantage, get_policy_loss
from llm_gym_agents.config.schema import RayConfig, Settings

Unused = tuple[tuple[str, ...], str]
"""Settings without an effect, and the setting that is the cause."""
ESTIMATOR_SETTINGS = {"gamma": "gamma", "gae_lambda": "lam"}
"""Settings of the section that an estimator may take, and its own names of them."""
_CRITIC_SETTINGS = (
    "model.critic",
    "training.value_coef",
    "training.value_learning_rate",
    "training.critic_warmup_iters",
    "training.normalise_values",
)


def unused_settings(config: Settings, differ: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each setting of ``differ``, those not at default, without an effect."""
    changed = {
        f"{section}.{name}": value
        for section, settings in differ.items()
        for name, value in settings.items()
    }
    idle = [
        f"{name}={changed[name]!r} has no effect with {cause}"
        for names, cause in (*_algorithm(config), *_switches(config))
        for name in names
        if name in changed
    ]
    return [*idle, *_not_held_out(config)]


def _not_held_out(config: Settings) -> Iterator[str]:
    """Say that what is evaluated on is trained on as well, which makes of it another measure."""
    settings = config.environment
    shared = settings.eval_split is not None and settings.train_split in (None, settings.eval_split)
    if shared and settings.eval_interval:
        yield (
            f"environment.train_split={settings.train_split!r} trains on what is evaluated on, "
            f"environment.eval_split={settings.eval_split!r}: nothing is held out"
        )


def _algorithm(config: Settings) -> Iterator[Unused]:
    training = config.training
    estimator = get_advantage(training.adv_estimator)
    cause = f"training.adv_estimator={training.adv_estimator!r}"
    missing = [ours for ours, its in ESTIMATOR_SETTINGS.items() if its not in estimator.settings]
    yield (tuple(f"training.{name}" for name in missing), cause)
    whole = {**estimator.settings, **training.estimator_settings}
    if whole.get("credit") == "episode":
        yield (("training.gamma",), f"{cause}, which compares whole episodes")
    if not estimator.needs_critic:
        yield ((*_CRITIC_SETTINGS, "inference.bootstrap_at_turn_limit"), cause)
    if "clip_ratio" not in get_policy_loss(training.policy_loss).settings:
        yield (("training.clip_ratio",), f"training.policy_loss={training.policy_loss!r}")
    if "clip_ratio" in training.loss_settings:
        yield (("training.clip_ratio",), "training.loss_settings")


def _switches(config: Settings) -> Iterator[Unused]:
    environment = config.environment
    if config.training.kl == "none":
        yield (("training.kl_coef",), "training.kl='none'")
    if config.inference.max_turns is None:
        yield (("inference.bootstrap_at_turn_limit",), "inference.max_turns=None")
    if environment.env_ids:
        yield (("environment.max_steps",), "an environment that has rules of its own")
    if not environment.mix:
        yield (("environment.mix_by",), "environment.mix={}")
    if not environment.eval_interval:
        every = ("eval_episodes", "eval_split", "stop_at_success")
        evaluation = tuple(f"environment.{name}" for name in every)
        yield ((*evaluation, "checkpoint.end_with_best"), "environment.eval_interval=0")
    if not config.ray.use_ray:
        names = [name for name in RayConfig.model_fields if name != "use_ray"]
        yield (tuple(f"ray.{name}" for name in names), "ray.use_ray=False")
    yield from _warm_start(config)


def _warm_start(config: Settings) -> Iterator[Unused]:
    player = config.warm_start.player
    cause = f"warm_start.player={player!r}"
    if player != "file":
        yield (("warm_start.file",), cause)
    if player in ("none", "file"):
        yield (("warm_start.turns",), cause)
    if player == "none":
        names = ("steps", "rounds", "rate")
        yield (tuple(f"warm_start.{name}" for name in names), cause)
