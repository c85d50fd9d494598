"""What people hand over as an environment, made into something that can be built many times."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from llm_gym.as_text import ensure_text, split_settings
from llm_gym.errors import ConfigError
from llm_gym.legacy import BaseEnvironment, as_gym
from llm_gym.registry.plugins import find_spec

EnvSource = str | EnvSpec | Callable[..., Any] | gym.Env[Any, Any] | BaseEnvironment


def env_source(env: EnvSource) -> Any:
    """Return something that ``make_vec`` can build many environments from.

    An environment that was handed over as an object is rebuilt from its spec, or else copied. One
    in the shape of ``gym`` 0.21 is adapted first.
    """
    if not isinstance(env, str | EnvSpec | gym.Env) and not callable(env):
        env = as_gym(env)
    if not isinstance(env, gym.Env):
        return env
    if env.spec is not None:
        return env.spec
    try:
        copy.deepcopy(env)
    except Exception as error:
        raise ConfigError(
            f"{env} has no spec and cannot be copied ({error}); pass a function that makes one"
        ) from error
    return lambda: copy.deepcopy(env)


def text_source(env: EnvSource, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a source of text environments and the arguments of ``make_vec`` for it.

    An environment that does not speak text is put into ``AsText``, innermost of all wrappers; the
    settings of ``AsText`` among ``settings`` go there.
    """
    source = env_source(env)
    if isinstance(source, str):
        source = find_spec(source)
    own, words = split_settings(source, settings)
    speak = functools.partial(ensure_text, **words)
    return source, {**own, "wrappers": [speak, *own.get("wrappers", ())]}
