"""What ``llm-gym train`` is asked to train: a recipe, an id or a config file.

It imports little, so that a wrong flag is answered at once.
"""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym

from llm_gym.cli.common import build
from llm_gym.core.errors import ConfigError
from llm_gym.evaluate.scores import published
from llm_gym.registry.suite import ENVS
from llm_gym.registry.user_code import close_user_env
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.store import named, read_config
from llm_gym_agents.recipes import find_recipe
from llm_gym_agents.recipes.recipe import Recipe


def find_suite(parts: Sequence[str]) -> tuple[Recipe, set[str]]:
    """Return a recipe for a part of the suite, and which settings it sets.

    The part is every environment with a solver and one of ``parts`` in its id.
    """
    ids = [row.id for row in ENVS if any(part.lower() in row.id.lower() for part in parts)]
    mix = {env_id: 1.0 for env_id in ids if "solver" in published().get(env_id, {})}
    if not mix:
        raise ConfigError(f"no environment with a solver has {' or '.join(parts)} in its id")
    config, name = ConfigStore(), "-".join(["suite", *parts]).lower()
    config.environment.mix = mix
    about = f"Training on {config.environment.env_label}."
    return Recipe(name=name, about=about, config=config), {"environment.mix"}


def find_target(target: str, modules: list[str]) -> tuple[Recipe, set[str] | None]:
    """Return the recipe, and which settings it sets; None if it sets all that it needs."""
    found = find_recipe(target)
    if found is not None:
        return found, None
    chosen: set[str] = set()
    if target.endswith((".yaml", ".yml", ".json")):
        config = ConfigStore.load(target)
        name, chosen = Path(target).stem, named(read_config(Path(target)))
    else:
        config, name = ConfigStore(), re.split("[/:]", target)[-1]
        config.environment.env_id = _with_module(target, modules)
    about = f"Training on {config.environment.env_label or target}."
    return Recipe(name=name, about=about, config=config), chosen


def flags(argv: Sequence[str]) -> set[str]:
    """Return the names of the settings on a command line.

    >>> sorted(flags(["--training.learning-rate", "1", "--ray.no-use-ray", "--model.dtype=x"]))
    ['model.dtype', 'ray.use_ray', 'training.learning_rate']
    """
    named = (word[2:].partition("=")[0].replace("-", "_") for word in argv if word[:2] == "--")
    return {name.replace(".no_", ".") for name in named if "." in name}


def try_env(config: ConfigStore) -> None:
    """Build each environment once, so that a wrong setting is one sentence and no traceback."""
    settings = config.environment
    for env_id in settings.env_ids:
        close_user_env(build(env_id, settings.kwargs_of(env_id)))


def shrink(config: ConfigStore) -> None:
    """Make a run as small as possible: everything happens once."""
    config.training.num_epochs = config.training.num_iters_per_epoch = 1
    config.training.batch_size = config.training.group_size * 2
    config.training.mini_batch_size = config.training.batch_size
    config.warm_start.turns, config.warm_start.steps = min(config.warm_start.turns, 200), 2
    config.warm_start.rounds = 1
    config.training.warmup_iters = config.training.critic_warmup_iters = 0
    config.environment.eval_interval, config.environment.eval_episodes = 1, 4
    config.inference.num_envs = 4
    config.inference.max_tokens = min(config.inference.max_tokens, 8)
    config.inference.max_turns = min(config.inference.max_turns or 4, 4)


def unused_folder(folder: Path) -> Path:
    """Return ``folder``, or the first of ``folder-2``, ``folder-3``, ... that holds no run."""
    from llm_gym_agents.run.files import is_locked
    from llm_gym_agents.run.metrics import read_metrics

    names = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    places = itertools.chain([folder], names)
    return next(place for place in places if not read_metrics(place) and not is_locked(place))


def _with_module(env_id: str, modules: list[str]) -> str:
    """Return ``env_id`` with the module that registers it, so that a run can be resumed."""
    entry = gym.registry[env_id].entry_point if env_id in gym.registry else None
    home = entry if isinstance(entry, str) else getattr(entry, "__module__", "") or ""
    top = re.split("[.:]", home)[0]
    module = next((module for module in modules if module.split(".")[0] == top), None)
    return env_id if module is None else f"{module}:{env_id}"
