"""Checks across settings: contradictions, and settings without an effect.

``ConfigStore.check`` raises the first contradiction before a run. A changed setting without an
effect only gives a note, so a recipe that sets a discount still runs with an estimator that has
none. The registries of ``algo`` say what each estimator and loss needs, including your own.
"""

import re
from collections.abc import Iterator, Mapping, Set
from itertools import chain
from typing import Any

from llm_gym.core.errors import ConfigError
from llm_gym_agents.config.schema import SECTIONS, RayConfig, Settings

# GSPO's ratio is a mean over an episode and hardly moves; a range like PPO's never clips.
_WIDEST_GSPO_CLIP = 0.01
_NAME = re.compile(rf"\b(?:{'|'.join(SECTIONS)})\.\w+")
"""A setting in a sentence."""
Unused = tuple[tuple[str, ...], str]
"""Settings without an effect, and the setting that is the cause."""
ESTIMATOR_SETTINGS = {"gamma": "gamma", "gae_lambda": "lam"}
"""Settings of ``training`` that an estimator may take, and the names of its arguments."""
_CRITIC_SETTINGS = (
    "model.critic",
    "training.value_coef",
    "training.value_learning_rate",
    "training.critic_warmup_iters",
    "training.normalise_values",
)
_EVALUATION_SETTINGS = (
    "environment.eval_episodes",
    "environment.eval_split",
    "environment.stop_at_success",
    "checkpoint.end_with_best",
)


def first_problem(
    config: Settings, *, light: bool = False, chosen: Set[str] | None = None
) -> str | None:
    """Return the first contradiction in ``config``, or None.

    ``light`` leaves out the rules about estimators and losses, which need torch. With ``chosen``,
    only contradictions between these settings count; a sentence names all that it depends on.
    """
    rules = [_sizes, _schedule, _play]
    if not light:
        rules += [_groups, _own_settings, _losses]
    found: Iterator[str] = chain.from_iterable(rule(config) for rule in rules)
    if chosen is not None:
        found = (each for each in found if chosen >= {*_NAME.findall(each)})
    return next(found, None)


def _sizes(config: Settings) -> Iterator[str]:
    training = config.training
    if training.resample_zero_variance_groups and training.group_size < 2:
        yield (
            "training.group_size must be at least 2 with training.resample_zero_variance_groups, "
            f"which plays groups without spread anew, got {training.group_size}"
        )
    if training.batch_size % training.group_size:
        yield (
            "training.batch_size must be a multiple of training.group_size, "
            f"got {training.batch_size} and {training.group_size}"
        )
    if training.mini_batch_size > training.batch_size:
        yield (
            "training.mini_batch_size must be at most training.batch_size, "
            f"got {training.mini_batch_size} and {training.batch_size}"
        )


def _groups(config: Settings) -> Iterator[str]:
    from llm_gym_agents.algo import get_advantage  # imports torch

    training = config.training
    if get_advantage(training.adv_estimator).needs_groups and training.group_size < 2:
        yield (
            f"training.group_size must be at least 2 for the estimator {training.adv_estimator!r}, "
            f"which compares episodes of one start, got {training.group_size}; 8 is usual"
        )


def _schedule(config: Settings) -> Iterator[str]:
    training = config.training
    for name in ("warmup_iters", "critic_warmup_iters"):
        if getattr(training, name) >= training.iterations:
            yield (
                f"training.{name} must be below training.num_epochs times "
                f"training.num_iters_per_epoch, {training.iterations} iterations, got "
                f"{getattr(training, name)}"
            )
    rates = {
        "training.learning_rate": training.learning_rate,
        "training.value_learning_rate": training.value_learning_rate,
        "warm_start.rate": config.warm_start.rate,
    }
    for name, rate in rates.items():
        if rate is not None and rate > 1.0:
            yield f"{name} must be at most 1, got {rate:g}; from 1e-6 to 3e-3 is usual"


def _own_settings(config: Settings) -> Iterator[str]:
    """Check that estimator and loss have these settings, and that ``training`` has not."""
    from llm_gym_agents.algo import get_advantage, get_policy_loss  # imports torch

    training = config.training
    given = training.estimator_settings
    for name, twin in ESTIMATOR_SETTINGS.items():
        if twin in given:
            yield f"training.{name} must be set in its own place, got it in estimator_settings"
    parts = (
        (get_advantage(training.adv_estimator), "estimator_settings"),
        (get_policy_loss(training.policy_loss), "loss_settings"),
    )
    for spec, name in parts:
        try:
            spec.check_settings(getattr(training, name))
        except ConfigError as error:
            yield f"training.{name}: {error}"


def _losses(config: Settings) -> Iterator[str]:
    from llm_gym_agents.algo import get_policy_loss  # imports torch

    training = config.training
    if training.policy_loss == "gspo" and (training.clip_ratio or 0.0) > _WIDEST_GSPO_CLIP:
        yield (
            f"training.clip_ratio must be at most {_WIDEST_GSPO_CLIP} for the policy loss 'gspo', "
            f"whose ratio is a mean over an episode, got {training.clip_ratio}; None takes its "
            "authors' 0.0003 and 0.0004"
        )
    loss = get_policy_loss(training.policy_loss)
    if loss.needs_whole_episodes and training.max_learned_turns is not None:
        yield (
            f"training.max_learned_turns must be None for the policy loss {loss.name!r}, which "
            f"needs whole episodes, got {training.max_learned_turns}"
        )
    aggregation = training.loss_agg or loss.aggregation
    if aggregation == "seq-mean-token-sum-norm" and config.inference.max_turns is None:
        yield (
            "inference.max_turns must be set for the aggregation 'seq-mean-token-sum-norm', which "
            "divides by the most tokens an episode may have, got None"
        )


def _play(config: Settings) -> Iterator[str]:
    environment = config.environment
    if environment.workers > config.inference.num_envs:
        yield (
            "environment.workers must be at most inference.num_envs, "
            f"got {environment.workers} and {config.inference.num_envs}"
        )
    if environment.timeout is not None and not environment.workers:
        yield (
            f"environment.timeout needs environment.workers, got {environment.timeout} and 0; "
            "a step in the trainer's own process cannot be given up"
        )
    named, mix = environment.env_id, environment.mix
    if mix and named not in (None, *mix):
        yield f"environment.env_id must be None or an id of environment.mix, got {named!r}"
    for env_id in mix:
        if not isinstance(own := environment.env_kwargs.get(env_id, {}), dict):
            yield f"environment.env_kwargs.{env_id} must be a dictionary of settings, got {own!r}"
    ray, usual = config.ray, RayConfig()
    for name in () if ray.use_ray else RayConfig.model_fields:
        if (value := getattr(ray, name)) != getattr(usual, name):
            yield f"ray.{name} needs ray.use_ray, got {value!r} without it; add --ray.use-ray"
    if ray.use_ray and ray.staleness and config.training.importance_cap is None:
        yield (
            "training.importance_cap must be a number with ray.staleness above 0, got None: tokens "
            "of older weights need a weight"
        )


# --- settings without an effect ------------------------------------------------------------


def unused_settings(config: Settings, differ: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each changed setting (in ``differ``) that has no effect."""
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
    if config.model.lora_rank and config.model.is_embedded:
        idle.append(
            f"model.lora_rank={config.model.lora_rank} keeps the weights of the embedded model "
            "frozen, which are random: leave it out, or name a model with --model"
        )
    train, held_out = config.environment.train_split, config.environment.eval_split
    if config.environment.eval_interval and held_out is not None and train in (None, held_out):
        idle.append(
            f"environment.train_split={train!r} trains on what is evaluated on, "
            f"environment.eval_split={held_out!r}: nothing is held out"
        )
    return idle


def _algorithm(config: Settings) -> Iterator[Unused]:
    from llm_gym_agents.algo import get_advantage, get_policy_loss  # imports torch

    training = config.training
    estimator = get_advantage(training.adv_estimator)
    cause = f"training.adv_estimator={training.adv_estimator!r}"
    for name, argument in ESTIMATOR_SETTINGS.items():
        if argument not in estimator.settings:
            yield ((f"training.{name}",), cause)
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
        yield (_EVALUATION_SETTINGS, "environment.eval_interval=0")
    warm_start = config.warm_start
    cause = f"warm_start.player={warm_start.player!r}"
    if warm_start.player == "none" or warm_start.is_file:
        yield (("warm_start.turns",), cause)
    if warm_start.player == "none":
        yield (("warm_start.steps", "warm_start.rounds", "warm_start.rate"), cause)
