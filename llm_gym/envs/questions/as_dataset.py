"""``as_dataset_env``: whatever somebody calls a data set, as an environment."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym

from llm_gym.core.errors import ConfigError
from llm_gym.datasets.files import open_source
from llm_gym.envs.questions.dataset import ID, DatasetEnv


def as_dataset_env(
    dataset: Any, *, collate_fn: Callable[[Any], Any] | None = None, **settings: Any
) -> gym.Env[str, str]:
    """Return an environment of ``dataset``, which may be anything that ``DatasetEnv`` takes.

    A file becomes ``llm_gym/Dataset-v0`` with a spec, so that records name it and other processes
    build it again. Other rows are held by the environment itself, and its copies share them. An
    environment is returned as it is.

    Args:
        dataset: A path, rows, a dictionary of splits, or an environment.
        collate_fn: Makes a row of ours out of each of theirs; the rows are then kept in memory.
        **settings: Those of ``DatasetEnv``.

    >>> env = as_dataset_env([{"question": "2 + 2?", "answer": 4}], prompt="question")
    >>> env.reset(seed=0)[0].endswith("2 + 2?"), env.step("4")[1]
    (True, 1.0)
    """
    if isinstance(dataset, gym.Env):
        given = [*settings, *(["collate_fn"] if collate_fn else [])]
        if given:
            raise ConfigError(
                f"an environment has its settings already, got {', '.join(given)} as well"
            )
        return dataset
    if collate_fn is not None:
        dataset = _collate(dataset, collate_fn)
    if isinstance(dataset, (str, os.PathLike)):
        env: gym.Env[str, str] = gym.make(ID, dataset=os.fspath(dataset), **settings)
        return env
    return DatasetEnv(dataset=dataset, **settings)


def _collate(dataset: Any, collate_fn: Callable[[Any], Any]) -> Any:
    if isinstance(dataset, Mapping):
        return {split: _collate(part, collate_fn) for split, part in dataset.items()}
    return [collate_fn(found.data) for found in open_source(dataset).scan()]
