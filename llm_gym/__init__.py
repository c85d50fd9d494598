"""Gymnasium for language models: text environments that are true ``gymnasium.Env``s."""

from llm_gym.envs import register_envs

__version__ = "0.1.0"

register_envs()
