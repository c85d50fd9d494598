"""Gymnasium for language models: text environments that are true ``gymnasium.Env``s.

import gymnasium as gym
import llm_gym

env = gym.make("llm_gym/TextGame-v0")
"""

from llm_gym.envs import register_envs

__version__ = "0.1.0"

register_envs()
