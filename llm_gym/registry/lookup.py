"""Finds an environment by its name; errors suggest the closest name.

A class needs no registration: ``module:Name`` is an id. Its spec holds this name, so the spec can
be written as JSON and sent to other processes.
"""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

from llm_gym.core.errors import ConfigError
from llm_gym.core.text import closest, no_setting, wrong_setting
from llm_gym.registry.user_code import CREATOR, describe_error, import_user_module

_ADAPTED = f"{__name__}:adapted"


def find_spec(env_id: str) -> EnvSpec:
    """Return the spec of ``env_id``: an id, ``module:id`` to import first, or ``module:Class``.

    >>> find_spec("CartPole-v1").max_episode_steps
    500
    """
    home, _, name = env_id.rpartition(":")
    module = import_user_module(home) if home else None
    if module is not None and name not in gym.registry and (spec := class_spec(module, name)):
        return spec
    try:
        return gym.spec(name)
    except gym.error.Error as error:
        raise ConfigError(_not_found(module, name)) from error


def _not_found(module: ModuleType | None, name: str) -> str:
    if module is not None:
        message, known = f"module {module.__name__} has no environment {name!r}", names_in(module)
        if meant := closest(name, known):
            return f"{message}; did you mean {module.__name__}:{meant}?"
        return f"{message}; it has {', '.join(known[:9])}" if known else message
    message = f"there is no environment {name!r}"
    if home := home_of(name):
        if importlib.util.find_spec(home.partition(".")[0]) is None:
            return f"{message}; it is of the package {home}, which is not installed"
        return f"{message} before its package is imported; write {home}:{name}, or --import {home}"
    if own := _class_in_file(name):
        return f"{own.partition(':')[0]}.py is a file; name its class: {own}"
    if found := meant_id(name):
        return f"{message}; did you mean {found}?"
    return (
        f"{message}; llm-gym list --all shows what is known; name an environment of another "
        "package or file MODULE:ID or MODULE:Class"
    )


def _class_in_file(name: str) -> str:
    """Return ``module:Class`` if ``name``, with or without .py, is a file in the current folder."""
    file = f"{name.removesuffix('.py')}.py"
    if not file[:-3].isidentifier() or not Path(file).is_file():
        return ""
    classes = re.findall(r"^class (\w+)", Path(file).read_text("utf-8", "replace"), re.MULTILINE)
    return f"{file[:-3]}:{closest(file[:-3], classes) or next(iter(classes), 'Class')}"


def cannot_build(name: str, error: BaseException) -> ConfigError:
    """Return the error message for an environment that cannot be built.

    >>> cannot_build("Maze-v0", ImportError("No module named 'maze'"))
    ConfigError("cannot build Maze-v0: No module named 'maze'")
    """
    why = str(error).partition(CREATOR)[0]
    if "must inherit from the gymnasium.Env" in why:
        why = "it is no gymnasium.Env; named by its class, as module:Class, it would be adapted"
    elif wrong := wrong_setting(error):
        why = f"it {no_setting(wrong, settings_of(name))}"
    elif not isinstance(error, gym.error.Error | ImportError):
        why = describe_error(error)
    return ConfigError(f"cannot build {name}: {why}")


def owner(spec: EnvSpec) -> str:
    """Return the package that the environment's class belongs to.

    >>> owner(gym.spec("CartPole-v1"))
    'gymnasium'
    """
    entry = spec.entry_point
    module = entry if isinstance(entry, str) else getattr(entry, "__module__", None) or "?"
    return module.partition(":")[0].partition(".")[0]


def meant_id(name: str) -> str:
    """Return the id that a name without namespace or version probably means.

    In another namespace than the given one, only an identical name counts.

    >>> meant_id("textgame"), meant_id("llm_gym/TextGaem-v0"), meant_id("llm_gym/Nope-v0")
    ('llm_gym/TextGame-v0', 'llm_gym/TextGame-v0', '')
    >>> meant_id("llm_gym/CartPole-v1")
    'CartPole-v1'
    """
    space = name.rpartition("/")[0]

    def bare(env_id: str) -> str:
        return env_id.rpartition("/")[2].partition("-v")[0].lower()

    known = [i for i in gym.registry if i.startswith(space) or bare(i) == bare(name)]
    closest_name = closest(bare(name), map(bare, known))
    found = [env_id for env_id in known if bare(env_id) == closest_name]
    # In order of preference; the newest version is registered last.
    for namespace in (space, "llm_gym", ""):
        for env_id in reversed(found):
            if env_id.rpartition("/")[0] == namespace:
                return env_id
    return found[0] if found else ""


# How ids begin that a package registers when it is imported, and its module.
_HOMES = {
    "MiniGrid-": "minigrid", "BabyAI-": "minigrid", "MiniWorld-": "miniworld", "ALE/": "ale_py",
    "highway-": "highway_env", "Fetch": "gymnasium_robotics",
    "FlappyBird-": "flappy_bird_gymnasium", "browsergym/miniwob": "browsergym.miniwob",
}  # fmt: skip


def home_of(name: str) -> str:
    """Return the module that registers ids such as ``name``, if it is known and not yet imported.

    >>> home_of("ALE/Pong-v5"), home_of("Maze-v0")
    ('ale_py', '')
    """
    homes = (home for prefix, home in _HOMES.items() if name.startswith(prefix))
    return next((home for home in homes if home not in sys.modules), "")


def settings_of(env_id: str) -> set[str]:
    """Return the settings that ``gym.make`` takes for ``env_id``; empty if unknown.

    >>> {"rooms", "shaping"} <= settings_of("llm_gym/TextGame-v0")
    True
    """
    module, _, name = env_id.rpartition(":")
    spec = gym.registry.get(name)
    if spec is None and module in sys.modules:
        spec = class_spec(sys.modules[module], name)
    from llm_gym.core.settings import setting_names  # it imports the reader

    return set() if spec is None else setting_names(creator(spec))


# --- classes and functions as ``module:Name`` ----------------------------------------


def class_spec(module: ModuleType, name: str) -> EnvSpec | None:
    """Return a spec of the class or function ``name`` in ``module``; None if there is neither.

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
    """Return the callable that builds the environment; its signature lists the settings."""
    entry = spec.kwargs["adapts"] if spec.entry_point == _ADAPTED else spec.entry_point
    return load_env_creator(entry) if isinstance(entry, str) else entry


def names_in(module: ModuleType) -> list[str]:
    """Return the environment classes of ``module``, and the ids registered for them."""
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
