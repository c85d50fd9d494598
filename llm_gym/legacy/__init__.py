"""Environments in the four-value shape, and ``as_gym``, which makes them Gymnasium's.

``BaseEnvironment`` is for classes that return ``(observation, reward, done, info)`` from
``step`` and a string from ``reset``. ``as_gym`` takes environments of ``gym`` 0.21 as well, whose
observations and actions need not be text. New environments are better off with ``llm_gym.TextEnv``.
"""

from llm_gym.legacy.adapter import LegacyEnv, as_gym
from llm_gym.legacy.base import BaseEnvironment, EnvironmentConfig
from llm_gym.legacy.old_gym import OldGymEnv
from llm_gym.legacy.simple_game import SimpleGameEnvironment

__all__ = [
    "BaseEnvironment",
    "EnvironmentConfig",
    "LegacyEnv",
    "OldGymEnv",
    "SimpleGameEnvironment",
    "as_gym",
]
