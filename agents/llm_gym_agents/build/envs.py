"""What is played: one environment, or a pool of them, from an id, a class or a data set."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from llm_gym.as_text import make_text
from llm_gym.errors import ConfigError
from llm_gym.legacy import BaseEnvironment, as_gym
from llm_gym.registry.plugins import find_spec
from llm_gym.registry.sources import EnvSource, env_source
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.rollouts.pool import TextEnvPool

MOST_TURNS = 1_000
"""Turns of an episode that is played to be imitated, where the environment knows no end."""


def build_pool(config: ConfigStore, env: EnvSource, rows: int) -> TextEnvPool:
    """Return ``rows`` environments, cut after as many turns as the config says."""
    limit = config.inference.max_turns
    wrappers: list[Callable[[Any], Any]] = []
    if limit is not None:
        wrappers.append(lambda made: EpisodeLimits(made, max_turns=limit))
    source, settings = _source(config, env)
    return TextEnvPool(
        source,
        rows,
        workers=min(config.environment.workers, rows),
        timeout=config.environment.timeout,
        wrappers=wrappers,
        **settings,
    )


def build_one_env(config: ConfigStore, env: EnvSource) -> gym.Env[str, str]:
    """Return one environment as the pool plays it, cut after ``MOST_TURNS`` if nothing else is."""
    source, settings = _source(config, env)
    limit = config.inference.max_turns
    return EpisodeLimits(make_text(source, **settings), max_turns=limit or MOST_TURNS)


def _source(config: ConfigStore, env: EnvSource) -> tuple[EnvSource, dict[str, Any]]:
    """Return what environments are built from, and their settings."""
    source = env_source(env)
    if isinstance(env, type) and issubclass(env, BaseEnvironment):
        # Its config is the environment section, where it finds max_steps and its own settings.
        source = functools.partial(as_gym, env, config.environment)
    return source, config.environment.env_kwargs if isinstance(source, str) else {}


def training_env(
    config: ConfigStore,
    environment: EnvSource | None,
    dataset: Any,
    collate_fn: Callable[[Any], dict[str, Any]] | None,
) -> EnvSource:
    """Return what is played: the environment, the data set, or the id that the config names."""
    if environment is not None and dataset is not None:
        raise ConfigError("pass an environment or a dataset, got both")
    if dataset is not None:
        return dataset_env(config, dataset, collate_fn)
    found = environment if environment is not None else config.environment.env_id
    if found is None:
        raise ConfigError("pass an environment or set config.environment.env_id, got neither")
    if isinstance(found, str):
        find_spec(found)
    return found


def dataset_env(
    config: ConfigStore, dataset: Any, collate_fn: Callable[[Any], dict[str, Any]] | None
) -> EnvSource:
    """Return an environment that asks the questions of ``dataset``."""
    from llm_gym.envs.questions.as_dataset import as_dataset_env

    made: EnvSource = as_dataset_env(
        dataset, collate_fn=collate_fn, **config.environment.env_kwargs
    )
    return made


def unsaved_args(environment: EnvSource | None, **objects: Any) -> list[str]:
    """Return the names of what a program gave that no file can bring back."""
    named = environment is None or isinstance(environment, str)
    return [name for name, each in objects.items() if each is not None] + ["environment"] * (
        not named
    )
