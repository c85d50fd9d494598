"""``untrusted``: finds settings of a foreign config that may do harm.

The module lists harmless settings, not dangerous ones. Any other setting must have its default, one
of its named choices, or a number that a laptop can handle.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, get_args, get_origin

from llm_gym_agents.config.schema import SECTIONS
from llm_gym_agents.config.store import ConfigStore
from llm_gym_agents.config.value_types import PLAYERS

_MOST = 1_000_000


def _any(value: Any) -> bool:
    return True


def _at_most(most: float) -> Callable[[Any], bool]:
    return lambda value: value is None or value <= most


def _has_no_risk(value: Any) -> bool:
    from llm_gym.episodes.replay import risky_setting  # it knows how data sets are read

    return not risky_setting(value)


_JUDGES: Mapping[str, Callable[[Any], bool]] = {
    "model.device": _any,  # its type has a list
    "model.trust_remote_code": lambda value: not value,
    "model.lora_rank": _at_most(4096),
    "inference.backend": lambda value: value in ("transformers", "vllm", "sglang"),
    "inference.template_options": _any,  # its template is rendered within limits
    "inference.stop": _any,
    "inference.engine": _has_no_risk,
    "inference.num_envs": _at_most(4096),
    "inference.system_prompt": _any,  # text for the model
    "warm_start.player": lambda value: value in PLAYERS,  # and no file
    "training.seed": _any,
    "training.batch_size": _at_most(100_000),
    "training.adv_estimator": str.isidentifier,  # and no module:function
    "training.policy_loss": str.isidentifier,
    "training.estimator_settings": _any,  # judged by the function that takes them
    "training.loss_settings": _any,
    "checkpoint.output_dir": _any,  # the folder that the user names is taken instead
    "environment.env_id": _any,  # judged with its settings
    "environment.mix": _any,
    "environment.env_kwargs": _any,
    "environment.workers": _at_most(64),
    "ray.num_actors": _at_most(64),
}


def untrusted(config: ConfigStore, imported: Collection[str] = (), env: str | None = None) -> str:
    """Return the first setting that is not known to be harmless, or "".

    The user has named the modules in ``imported``, and ``env``.
    """
    if config.inference.backend != "transformers" and config.inference.engine:
        return "inference.engine has settings of a program that is started"
    for section, cls in SECTIONS.items():
        for name, field in cls.model_fields.items():
            value = getattr(getattr(config, section), name)
            judge = _JUDGES.get(f"{section}.{name}")
            harmless = judge(value) if judge else _is_plain(value, field.annotation)
            if value != field.get_default(call_default_factory=True) and not harmless:
                return f"{section}.{name} is {value!r:.60}"
    return _environment(config, imported, env)


def names_code(config: ConfigStore) -> bool:
    """Whether a setting names a function or a class as ``module:name``."""
    training = config.training
    names = (training.adv_estimator, training.policy_loss, config.inference.backend)
    return any(":" in name for name in names)


def _environment(config: ConfigStore, imported: Collection[str], env: str | None) -> str:
    from llm_gym.episodes.replay import risky_env, risky_setting

    for env_id in config.environment.env_ids:
        kwargs = config.environment.kwargs_of(env_id)
        module, colon, _ = env_id.rpartition(":")
        if env_id == env or (colon and module in imported):
            if found := risky_setting(kwargs):
                return f"environment.env_kwargs has {found}"
        elif colon:
            return f"environment.env_id imports the module {module!r:.60}"
        elif found := risky_env(env_id, kwargs):
            return f"of environment, {found}"
    return ""


def _is_plain(value: Any, kind: Any) -> bool:
    """Whether ``value`` is a number, or text that the type lists."""
    if isinstance(value, str):
        literals = [each for each in (kind, *get_args(kind)) if get_origin(each) is Literal]
        return any(value in get_args(each) for each in literals)
    return (
        value is None
        or isinstance(value, bool | float)
        or (isinstance(value, int) and value <= _MOST)
    )
