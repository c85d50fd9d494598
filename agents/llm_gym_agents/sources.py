"""What people hand over as an environment, made into something that can be built many times."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from llm_gym.errors import ConfigError
from llm_gym.legacy import BaseEnvironment, as_gym

EnvSource = str | EnvSpec | Callable[..., Any] | gym.Env[Any, Any] | BaseEnvironment


def env_source(env: EnvSource) -> Any:
    """Return something that ``make_vec`` can build many environments from.

    An environment that was handed over as an object is rebuilt from its spec, or else copied.
    """
    if isinstance(env, BaseEnvironment):
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
