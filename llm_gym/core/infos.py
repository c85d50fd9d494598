"""Read an environment's ``info`` and system prompt, and the options of ``reset``.

Other people's environments may put any value into ``info``, even under our names. A value of an
unexpected type counts as missing and never raises.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from llm_gym.core.errors import ConfigError

Info = dict[str, Any]
Options = dict[str, Any] | None
"""Options of ``reset``."""
_OPTIONS = {"split", "difficulty"}
_NUMBERS = (bool, int, float, np.bool_, np.number)


def flag(info: Mapping[str, Any], name: str) -> bool | None:
    """Return ``info[name]`` as a boolean; None if it is missing or not a number.

    >>> flag({"success": np.True_}, "success"), flag({"success": "no"}, "success")
    (True, None)
    """
    value = info.get(name)
    return bool(value) if isinstance(value, _NUMBERS) else None


def reward_terms(info: Mapping[str, Any]) -> dict[str, float]:
    """Return the named parts of a reward from ``info``; values that are not numbers are dropped.

    >>> reward_terms({"reward_terms": {"goal": 1, "why": "near"}}), reward_terms({})
    ({'goal': 1.0}, {})
    """
    terms = info.get("reward_terms")
    if not isinstance(terms, Mapping):
        return {}
    return {str(name): float(each) for name, each in terms.items() if isinstance(each, _NUMBERS)}


def find_system_prompt(env: gym.Env[Any, Any], info: Mapping[str, Any] | None = None) -> str:
    """Return the system prompt of ``env``; "" if it has none.

    The ``info`` of ``reset`` comes first, because a wrapper may have extended the prompt there.
    Otherwise the attribute ``system_prompt`` counts.

    >>> import llm_gym
    >>> env = gym.make("llm_gym/GuessTheNumber-v0", rules="system")
    >>> find_system_prompt(env, {"system_prompt": "Play."})
    'Play.'
    >>> find_system_prompt(env, env.reset(seed=0)[1]) == find_system_prompt(env)
    True
    """
    prompt = (info or {}).get("system_prompt")
    if prompt is None:
        prompt = find_attribute(env, "system_prompt")
    return prompt if isinstance(prompt, str) else ""


def find_attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Return the attribute ``name`` of the outermost wrapper that has it, or None."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def check_options(options: Options) -> dict[str, Any]:
    """Return the options of ``reset`` as a dictionary with no other keys than it may have."""
    options = {} if options is None else options
    if not isinstance(options, dict):
        raise ConfigError(f"reset options must be a dictionary, got {options!r:.200}")
    if unknown := options.keys() - _OPTIONS:
        raise ConfigError(
            f"reset options must be among split and difficulty, got {sorted(map(str, unknown))}"
        )
    return options
