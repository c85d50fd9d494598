"""Gymnasium for language models: every text environment is a real ``gymnasium.Env``.

``import llm_gym`` registers the environments; ``gym.make("llm_gym/TextGame-v0")`` builds one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from llm_gym.registry.suite import register_envs

__version__ = "0.1.0"

__all__ = [
    "ActionParser", "AnyText", "AsText", "BaseEnvironment", "ChatObservation", "ConfigError",
    "EnvironmentConfig", "EnvironmentStepTool", "EpisodeLimits", "FormatReward",
    "FunctionCallingParser", "JSONActionParser", "MaxInvalid", "MultiTurnManager", "Outcome",
    "ReActActionParser", "RecordEpisodes", "SimpleGameEnvironment", "StopReason", "TextEnv",
    "TokenBudget", "Tool", "ToolDefinition", "ToolRegistry", "ToolUse", "Trajectory",
    "TranscriptObservation", "as_gym", "check_text_env", "end", "go_on", "lose", "make_vec",
    "play_episode", "progress", "read_episodes", "register_envs", "reject", "setting", "tool",
    "win", "write_episodes",
]  # fmt: skip

# The module of each name. It is imported at first use: most programs import llm_gym only to
# register the environments.
_MODULES = {
    "core.env": "TextEnv",
    "core.errors": "ConfigError",
    "core.game": "progress",
    "core.legacy": "BaseEnvironment EnvironmentConfig SimpleGameEnvironment as_gym",
    "core.outcome": "Outcome StopReason end go_on lose reject win",
    "core.settings": "setting",
    "core.spaces": "AnyText",
    "episodes": "Trajectory play_episode read_episodes write_episodes",
    "evaluate.checker": "check_text_env",
    "reading.parsers": "ActionParser FunctionCallingParser JSONActionParser ReActActionParser",
    "tools": "EnvironmentStepTool MultiTurnManager Tool ToolDefinition ToolRegistry tool",
    "vector": "make_vec",
    "wrappers": "AsText ChatObservation EpisodeLimits FormatReward MaxInvalid RecordEpisodes "
    "TokenBudget ToolUse TranscriptObservation",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

if TYPE_CHECKING:
    from llm_gym.core.env import TextEnv
    from llm_gym.core.errors import ConfigError
    from llm_gym.core.game import progress
    from llm_gym.core.legacy import (
        BaseEnvironment,
        EnvironmentConfig,
        SimpleGameEnvironment,
        as_gym,
    )
    from llm_gym.core.outcome import Outcome, StopReason, end, go_on, lose, reject, win
    from llm_gym.core.settings import setting
    from llm_gym.core.spaces import AnyText
    from llm_gym.episodes import Trajectory, play_episode, read_episodes, write_episodes
    from llm_gym.evaluate.checker import check_text_env
    from llm_gym.reading.parsers import (
        ActionParser,
        FunctionCallingParser,
        JSONActionParser,
        ReActActionParser,
    )
    from llm_gym.tools import (
        EnvironmentStepTool,
        MultiTurnManager,
        Tool,
        ToolDefinition,
        ToolRegistry,
        tool,
    )
    from llm_gym.vector import make_vec
    from llm_gym.wrappers import (
        AsText,
        ChatObservation,
        EpisodeLimits,
        FormatReward,
        MaxInvalid,
        RecordEpisodes,
        TokenBudget,
        ToolUse,
        TranscriptObservation,
    )


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'llm_gym' has no attribute {name!r}")
    return getattr(import_module(f"llm_gym.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


register_envs()
