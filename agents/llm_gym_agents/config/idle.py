"""Settings that were changed and do nothing, because another setting leaves them no part to play.

That is no error: a recipe's discount should not stop somebody from trying an estimator that has
none. But what was asked for and is not being done must be said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from llm_gym_agents.algo import get_advantage, get_policy_loss

if TYPE_CHECKING:
    from llm_gym_agents.config.store import ConfigStore


class _Idle(NamedTuple):
    """Settings without an effect, and the setting that is the cause."""

    names: tuple[str, ...]
    cause: str


_ESTIMATOR_SETTINGS = {
    "gamma": "gamma",
    "lam": "lam",
    "discount": "discount",
    "whiten_advantages": "whiten",
}
_LOSS_SETTINGS = {
    "clip_ratio": "clip_ratio",
    "clip_ratio_high": "clip_ratio",
    "dual_clip": "dual_clip",
}
_CRITIC_SETTINGS = (
    "model.critic",
    "training.value_coef",
    "training.value_clip",
    "training.value_learning_rate",
    "training.critic_warmup_iters",
)


def idle_settings(config: ConfigStore) -> list[str]:
    """Return a sentence for each setting that differs from its default and has no effect."""
    changed = {
        f"{section}.{name}": value
        for section, settings in config.diff().items()
        for name, value in settings.items()
    }
    return [
        f"{name}={changed[name]!r} has no effect with {idle.cause}"
        for idle in (*_algorithm(config), *_switches(config))
        for name in idle.names
        if name in changed
    ]


def _algorithm(config: ConfigStore) -> Iterator[_Idle]:
    training = config.training
    estimator = get_advantage(training.adv_estimator)
    cause = f"training.adv_estimator={training.adv_estimator!r}"
    missing = [ours for ours, its in _ESTIMATOR_SETTINGS.items() if its not in estimator.settings]
    yield _Idle(tuple(f"training.{name}" for name in missing), cause)
    if not estimator.needs_critic:
        yield _Idle(_CRITIC_SETTINGS, cause)
    loss = get_policy_loss(training.policy_loss)
    missing = [ours for ours, its in _LOSS_SETTINGS.items() if its not in loss.settings]
    names = tuple(f"training.{name}" for name in missing)
    yield _Idle(names, f"training.policy_loss={training.policy_loss!r}")


def _switches(config: ConfigStore) -> Iterator[_Idle]:
    training, environment = config.training, config.environment
    if not (training.use_kl_in_reward or training.use_kl_in_loss):
        names = ("training.kl_coef", "training.adaptive_kl")
        yield _Idle(names, "training.use_kl_in_reward=False and training.use_kl_in_loss=False")
    if not training.use_kl_in_loss:
        yield _Idle(("training.kl_kind",), "training.use_kl_in_loss=False")
    if not training.adaptive_kl:
        names = ("training.target_kl", "training.kl_horizon")
        yield _Idle(names, "training.adaptive_kl=False")
    if not config.model.lora_rank:
        yield _Idle(("model.lora_alpha",), "model.lora_rank=0")
    if config.model.local_path is not None:
        yield _Idle(("model.model_name",), f"model.local_path={config.model.local_path!r}")
    if not config.inference.multi_turn:
        yield _Idle(("inference.max_turns",), "inference.multi_turn=False")
    if not environment.curriculum:
        names = ("environment.curriculum_target", "environment.curriculum_step")
        yield _Idle(names, "environment.curriculum=False")
    if not environment.eval_interval:
        every = ("eval_episodes", "eval_split", "eval_greedy", "stop_at_success")
        evaluation = tuple(f"environment.{name}" for name in every)
        yield _Idle(evaluation, "environment.eval_interval=0")
    if not config.ray.use_ray:
        yield _Idle(("ray.num_actors", "ray.num_gpus_per_actor"), "ray.use_ray=False")
