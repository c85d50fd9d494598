"""``module:Name`` as an id: a class, or a function that makes an environment.

Whoever has a class in a file beside them should not have to register it first. Its spec names it
in words, so it goes through JSON and to other processes as that of any id does.
"""

from types import ModuleType
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

from llm_gym.core.errors import ConfigError

_ADAPTED = f"{__name__}:adapted"


def class_spec(module: ModuleType, name: str) -> EnvSpec | None:
    """Return a spec of the class or function ``name`` of ``module``; None where it has neither.

    >>> from llm_gym.envs.micro import echo
    >>> class_spec(echo, "EchoEnv").id
    'llm_gym.envs.micro.echo:EchoEnv'
    """
    from llm_gym.core.legacy import BaseEnvironment  # it imports the whole reader

    made = getattr(module, name, None)
    if not callable(made):
        return None
    named = f"{module.__name__}:{name}"
    if isinstance(made, type) and not issubclass(made, gym.Env):
        if not issubclass(made, BaseEnvironment):
            raise ConfigError(f"{named} is no environment: it must derive from gymnasium.Env")
        return EnvSpec(named, entry_point=_ADAPTED, kwargs={"adapts": named})
    return EnvSpec(named, entry_point=named)


def adapted(*, adapts: str, **settings: Any) -> gym.Env[Any, Any]:
    """Build and adapt the ``BaseEnvironment`` that ``adapts`` names."""
    from llm_gym.core.legacy import as_gym

    made: Any = load_env_creator(adapts)
    return as_gym(made, settings or None)


def creator(spec: EnvSpec) -> Any:
    """Return what builds the environment, and says by its arguments which settings it takes."""
    entry = spec.kwargs["adapts"] if spec.entry_point == _ADAPTED else spec.entry_point
    return load_env_creator(entry) if isinstance(entry, str) else entry


def names_in(module: ModuleType) -> list[str]:
    """Return the classes of environments that ``module`` has, and the ids of those in it."""
    classes = [
        name
        for name, each in vars(module).items()
        if isinstance(each, type) and issubclass(each, gym.Env) and _is_of(module, each)
    ]
    ids = [key for key, spec in gym.registry.items() if _is_of(module, spec.entry_point)]
    return [*classes, *ids]


def _is_of(module: ModuleType, made: Any) -> bool:
    home = made.partition(":")[0] if isinstance(made, str) else getattr(made, "__module__", "")
    return bool(home == module.__name__)
