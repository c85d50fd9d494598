"""``env_source``: turns anything that names an environment into a spec or a factory."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from llm_gym.core.errors import ConfigError
from llm_gym.core.legacy import BaseEnvironment, as_gym
from llm_gym.core.text import wrong_setting
from llm_gym.registry.lookup import cannot_build, find_spec

EnvSource = str | EnvSpec | Callable[..., Any] | gym.Env[Any, Any] | BaseEnvironment
"""A registered id, a spec, a class or another factory, or an environment itself."""


def env_source(env: EnvSource) -> EnvSpec | Callable[..., Any]:
    """Return a spec or a factory, from which many environments can be built, in any process.

    An environment object is rebuilt from its spec, or copied if it has none.

    >>> env_source("CartPole-v1").id, env_source(gym.make("CartPole-v1")).id
    ('CartPole-v1', 'CartPole-v1')
    """
    if isinstance(env, str):
        return find_spec(env)
    if isinstance(env, EnvSpec):
        return env
    if isinstance(env, gym.vector.VectorEnv):
        raise ConfigError(f"many environments are built from a single one, got {env}; pass one")
    if not isinstance(env, gym.Env):
        if callable(env):
            return env
        if not isinstance(env, BaseEnvironment):
            raise ConfigError(
                "an environment must be given as an id, an EnvSpec, a class, another factory or "
                f"an environment, got {env!r:.100} ({type(env).__name__})"
            )
        env = as_gym(env)
    if env.spec is not None:
        return env.spec
    try:
        copy.deepcopy(env)
    except Exception as error:
        raise ConfigError(
            f"{env} has no spec and cannot be copied ({error}); pass a function that makes one"
        ) from error
    return lambda: copy.deepcopy(env)


def build_env(
    source: EnvSpec | Callable[..., Any], settings: Mapping[str, Any]
) -> gym.Env[Any, Any]:
    """Return a new environment from a spec or a factory; a ``BaseEnvironment`` is adapted."""
    if isinstance(source, EnvSpec):
        try:
            return gym.make(source, **settings)
        except TypeError as error:
            if wrong_setting(error) not in settings:  # a mistake of the environment's own
                raise
            raise cannot_build(source.id, error) from error
    if isinstance(source, type) and issubclass(source, BaseEnvironment) and not settings:
        return as_gym(source)  # which knows how to build one without a config
    made = source(**settings)
    return as_gym(made) if isinstance(made, BaseEnvironment) else made
