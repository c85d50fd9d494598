"""Gymnasium for language models: text environments that are true ``gymnasium.Env``s.

    import gymnasium as gym
    import llm_gym

    env = gym.make("llm_gym/TextGame-v0")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from llm_gym.envs import register_envs

__version__ = "0.1.0"

# Where each public name lives. They are imported when first used: most programs import llm_gym
# only to have its environments registered.
_HOMES = {
    "AnyText": "spaces",
    "BaseEnvironment": "legacy",
    "EnvironmentConfig": "legacy",
    "EpisodeLimits": "wrappers",
    "Outcome": "outcome",
    "SimpleGameEnvironment": "legacy",
    "StopReason": "outcome",
    "TextEnv": "text_env",
    "Trajectory": "episodes",
    "as_gym": "legacy",
    "check_text_env": "checker",
    "go_on": "outcome",
    "lose": "outcome",
    "make_vec": "vector",
    "play_episode": "episodes",
    "read_episodes": "episodes",
    "reject": "outcome",
    "win": "outcome",
    "write_episodes": "episodes",
}
__all__ = ["register_envs", *_HOMES]

if TYPE_CHECKING:
    from llm_gym.checker import check_text_env
    from llm_gym.episodes import Trajectory, play_episode, read_episodes, write_episodes
    from llm_gym.legacy import BaseEnvironment, EnvironmentConfig, SimpleGameEnvironment, as_gym
    from llm_gym.outcome import Outcome, StopReason, go_on, lose, reject, win
    from llm_gym.spaces import AnyText
    from llm_gym.text_env import TextEnv
    from llm_gym.vector import make_vec
    from llm_gym.wrappers import EpisodeLimits


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'llm_gym' has no attribute {name!r}")
    return getattr(import_module(f"llm_gym.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


register_envs()
