"""Environments in the four-value shape, and ``as_gym``, which makes them Gymnasium's.

``BaseEnvironment`` is for classes that return ``(observation, reward, done, info)`` from
``step`` and a string from ``reset``. New environments should use ``llm_gym.TextEnv``.
"""

from llm_gym.core.legacy.adapter import LegacyEnv, as_gym
from llm_gym.core.legacy.base import BaseEnvironment, EnvironmentConfig
from llm_gym.core.legacy.simple_game import SimpleGameEnvironment

__all__ = [
    "BaseEnvironment",
    "EnvironmentConfig",
    "LegacyEnv",
    "SimpleGameEnvironment",
    "as_gym",
]
