"""Where an environment says how it is to be addressed: one look-up for everybody who plays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym


def find_system_prompt(env: gym.Env[Any, Any], info: Mapping[str, Any] | None = None) -> str:
    """Return what ``env`` wants told before its first observation; "" where it says nothing.

    The ``info`` of ``reset`` has the last word, because a wrapper on the way may have added to
    it; an environment that does not put its prompt there has an attribute ``system_prompt``.

    >>> import llm_gym
    >>> env = gym.make("llm_gym/GuessTheNumber-v0", rules="system")
    >>> find_system_prompt(env, {"system_prompt": "Play."})
    'Play.'
    >>> find_system_prompt(env, env.reset(seed=0)[1]) == find_system_prompt(env)
    True
    """
    said = (info or {}).get("system_prompt")
    if said is None:
        said = find_attribute(env, "system_prompt")
    return said if isinstance(said, str) else ""


def find_attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Return ``name`` of the outermost wrapper that has it, or None."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
