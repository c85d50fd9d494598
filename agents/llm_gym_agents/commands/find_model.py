"""``find_model``: finds a model by its own folder or by the folder of its training run.

``eval`` and ``play --model`` take unset options from the run's config, because a model plays badly
if its prompts differ from those in training.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError
from llm_gym_agents.config import ConfigStore, EnvConfig, InferenceConfig
from llm_gym_agents.config.trust import untrusted
from llm_gym_agents.run.checkpoints import Checkpoints
from llm_gym_agents.trainer.run_folder import FINAL

REWARDED = ("rules", "penalty", "shaping", "shaping_gamma", "max_invalid")
"""Settings that change rewards and prompts, but not how an environment is played."""


def find_model(
    place: str, env: str | None = None, modules: Sequence[str] = ()
) -> tuple[str, ConfigStore]:
    """Return the model in ``place`` (folder of a run or of a model) and the config of its run.

    The model of a run is the final one, or else the best checkpoint, or else the newest one.
    """
    folder = Path(place)
    if not _is_run(folder):
        return place, _config_around(folder, env, modules)
    kept, ended_with = Checkpoints(folder / "checkpoints"), folder / FINAL
    found = kept.best() or kept.latest()
    if found is None and not ended_with.exists():
        raise ConfigError(f"{folder} holds a run without a checkpoint yet; wait for the first one")
    config = ConfigStore.load(folder / "config.json")
    model = str(ended_with if ended_with.exists() or found is None else found / "model")
    if why := _chosen_by_folder(config.environment, env, modules):
        own = config.environment.env_id
        is_enough = own and not env and not _chosen_by_folder(config.environment, own, modules)
        named = f"if you trust it, name the environment, too: {own} --model {folder}"
        what = named if is_enough else f"pass only the model: --model {model}"
        raise ConfigError(f"cannot play as {folder} was trained: {why}; {what}")
    return model, config


def _is_run(folder: Path) -> bool:
    return (folder / "config.json").exists() and not (folder / "tokenizer.json").exists()


def _config_around(model: Path, env: str | None, modules: Sequence[str]) -> ConfigStore:
    """Return the config of the run that contains ``model``; the defaults if it is not trusted."""
    around = model.absolute().parents[:3]  # RUN/final, RUN/checkpoints/NAME/model
    folder = next(filter(_is_run, around), None)
    if folder is None or not model.is_dir():  # a name of the hub lies nowhere
        return ConfigStore()
    try:
        config = ConfigStore.load(folder / "config.json")
        why = _chosen_by_folder(config.environment, env, modules)
    except ConfigError as error:
        why = str(error)
    if not why:
        return config
    note = f"{model} is asked like any model, not as the run in {folder} trained it: {why}"
    say(f"llm-gym: {note}", error=True)
    return ConfigStore()


def _chosen_by_folder(settings: EnvConfig, env: str | None, modules: Sequence[str]) -> str:
    if env not in (None, *settings.env_ids):
        return ""  # nothing of the folder's environment is used
    used = ConfigStore()  # its model and engine settings are not used, only its weights
    used.environment.env_kwargs = settings.env_kwargs if env is None else settings.kwargs_of(env)
    used.environment.mix = settings.mix if env is None else {}
    used.environment.env_id = env or settings.env_id
    return untrusted(used, modules, env)


def as_trained(inference: InferenceConfig) -> dict[str, Any]:
    """Return the inference settings, by the names of ``llm-gym eval``'s options."""
    names = ("context", "max_tokens", "max_turns", "stop", "system_prompt", "temperature")
    return {
        "template": inference.template_options,
        **{name: getattr(inference, name) for name in names},
    }


def played_with(environment: EnvConfig, env: str | None) -> dict[str, Any]:
    """Return the training settings of ``env`` without rewards; empty for any other ``env``."""
    if env is None or env not in environment.env_ids:
        return {}
    kwargs = environment.kwargs_of(env)
    return {name: kwargs[name] for name in kwargs if name not in REWARDED}
