"""Did you mean …? For names of environments, and of their settings, that are not there."""

import inspect
import sys

import gymnasium as gym

from llm_gym.core.text import closest
from llm_gym.registry.classes import class_spec, creator

_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def meant_id(name: str) -> str:
    """Return the id that somebody may have meant who left out its namespace or its version.

    Of other namespaces than the one that is named only the very same name is meant.

    >>> meant_id("textgame"), meant_id("llm_gym/TextGaem-v0"), meant_id("llm_gym/Nope-v0")
    ('llm_gym/TextGame-v0', 'llm_gym/TextGame-v0', '')
    >>> meant_id("llm_gym/CartPole-v1")
    'CartPole-v1'
    """
    space = name.rpartition("/")[0]

    def bare(env_id: str) -> str:
        return env_id.rpartition("/")[2].partition("-v")[0].lower()

    known = [i for i in gym.registry if i.startswith(space) or bare(i) == bare(name)]
    alike = closest(bare(name), map(bare, known))
    found = [env_id for env_id in known if bare(env_id) == alike]
    namespaces = (space, "llm_gym", "")
    # The newest version is registered last.
    ours = [i for space in namespaces for i in reversed(found) if i.rpartition("/")[0] == space]
    return next(iter([*ours, *found]), "")


# How ids begin that a package registers when it is imported, by its module.
_HOMES = {
    "minigrid": ("MiniGrid-", "BabyAI-"),
    "ale_py": ("ALE/",),
    "highway_env": (
        *("highway-", "merge-", "roundabout-", "parking-", "intersection-", "racetrack-"),
        *("two-way-", "exit-", "u-turn-", "lane-keeping-"),
    ),
    "gymnasium_robotics": (
        *("Fetch", "HandReach", "HandManipulate", "PointMaze", "AntMaze", "AdroitHand"),
        "FrankaKitchen",
    ),
    "miniworld": ("MiniWorld-",),
    "crafter": ("Crafter",),
    "nle": ("NetHack", "MiniHack-"),
    "browsergym.miniwob": ("browsergym/miniwob",),
    "vizdoomgym": ("Vizdoom",),
    "gym_sokoban": ("Sokoban-",),
    "procgen": ("procgen-",),
    "flappy_bird_gymnasium": ("FlappyBird-",),
    "panda_gym": ("Panda",),
    "mo_gymnasium": ("mo-", "minecart-", "deep-sea-treasure"),
}


def home_of(name: str) -> str:
    """Return the module that registers ids like ``name``, if it is known and not imported yet.

    >>> home_of("ALE/Pong-v5"), home_of("Maze-v0")
    ('ale_py', '')
    """
    found = (home for home, begins in _HOMES.items() if name.startswith(begins))
    return next((home for home in found if home not in sys.modules), "")


def no_setting(name: str, wrong: str) -> str:
    """Return a sentence about a setting that an environment does not have."""
    known = sorted(settings_of(name))
    if meant := closest(wrong, known):
        return f"it has no setting {wrong!r}; did you mean {meant!r}?"
    listed = f"; it has {', '.join(known)}" if known else ""
    return f"it has no setting {wrong!r}{listed}"


def settings_of(env_id: str) -> set[str]:
    """Return the names of what ``gym.make`` takes for ``env_id``; none where nobody can say.

    >>> {"rooms", "shaping"} <= settings_of("llm_gym/TextGame-v0")
    True
    """
    module, _, name = env_id.rpartition(":")
    spec = gym.registry.get(name)
    if spec is None and module in sys.modules:
        spec = class_spec(sys.modules[module], name)
    made = None if spec is None else creator(spec)
    names: set[str] = set()
    for each in made.__mro__ if isinstance(made, type) else ():
        if "__init__" in vars(each):
            taken = inspect.signature(vars(each)["__init__"]).parameters.values()
            names |= {one.name for one in taken if one.kind not in _ANY}
    return names - {"self"}
