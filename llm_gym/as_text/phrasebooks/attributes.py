"""What an environment's attributes tell about it: names of actions and columns, and its limit.

There is no standard for these, only habits: a method ``get_action_meanings``, an ``Enum`` of
actions, a dictionary from number to name, ``max_steps``. Whatever is not found is not said.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import gymnasium as gym

_ACTIONS = ("action_meanings", "ACTION_MEANING", "action_names", "ACTION_NAMES", "actions",
            "Actions", "ACTIONS", "action_type", "_action_to_name")  # fmt: skip
_LIMITS = ("max_steps", "max_episode_steps", "_max_episode_steps", "max_episode_length", "horizon")


def choice_names(game: Any, count: int) -> list[str] | None:
    """Return names of ``count`` choices, from the attributes of an environment, or None.

    >>> class Lift(Enum):
    ...     STAY = 0
    ...     GO_UP = 1
    >>> class Game:
    ...     actions = Lift
    >>> choice_names(Game(), 2)
    ['stay', 'go up']
    """
    meanings = getattr(game, "get_action_meanings", None)  # as Atari games have it
    found = [meanings()] if callable(meanings) else []
    found += [getattr(game, name, None) for name in _ACTIONS]
    found += [getattr(each, "actions", None) for each in found]  # of highway-env's action type
    module = sys.modules.get(type(game).__module__)
    found += [
        each
        for name, each in vars(module or object).items()
        if name.lower().endswith(("action", "actions")) and isinstance(each, type)
    ]
    for each in found:
        if names := _names(each, count):
            return names
    return None


def _names(found: Any, count: int) -> list[str] | None:
    if isinstance(found, type) and issubclass(found, Enum):
        found = {member.value: name for name, member in found.__members__.items()}
    if isinstance(found, Mapping):
        if all(isinstance(name, str) for name in found):  # from name to number
            found = {number: name for name, number in found.items() if isinstance(number, int)}
        found = [found[at] for at in range(count)] if {*found} == {*range(count)} else None
    if isinstance(found, (tuple, list)) and all(isinstance(each, Enum) for each in found):
        found = [each.name for each in found]
    if not isinstance(found, Sequence) or not all(isinstance(name, str) for name in found):
        return None
    names = [" ".join(name.replace("_", " ").lower().split()) for name in found]
    return names if len(names) == len(set(names)) == count and all(names) else None


def column_names(game: Any, count: int) -> Sequence[str]:
    """Return names of the columns of an observation with rows, as highway-env has them."""
    features = getattr(getattr(game, "observation_type", None), "features", None)
    named = isinstance(features, list) and all(isinstance(name, str) for name in features)
    return features if named and features is not None and len(features) == count else ()


def step_limit(env: gym.Env[Any, Any], game: Any) -> int | None:
    """Return after how many steps an episode is cut: by a wrapper, its spec, or itself."""
    wrapper: Any = env
    while isinstance(wrapper, gym.Wrapper):
        if isinstance(wrapper, gym.wrappers.TimeLimit):
            return int(wrapper._max_episode_steps)
        wrapper = wrapper.env
    spec_limit = None if env.spec is None else env.spec.max_episode_steps
    limits = [spec_limit, *(getattr(game, name, None) for name in _LIMITS), _duration(game)]
    for limit in limits:
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            return limit
    return None


def _duration(game: Any) -> int | None:
    """Return the steps of a configuration that has seconds and steps per second."""
    config = getattr(game, "config", None)
    seconds = config.get("duration") if isinstance(config, dict) else None
    if not isinstance(seconds, (int, float)) or config is None:
        return None
    return int(seconds * config.get("policy_frequency", 1))
