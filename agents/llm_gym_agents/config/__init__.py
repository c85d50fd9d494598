"""The settings of a run: ``ConfigStore`` and its sections. Start reading at ``store``."""

from llm_gym_agents.config.cli import parse_args
from llm_gym_agents.config.ray import RayConfig
from llm_gym_agents.config.section import Section, UnknownSettingError
from llm_gym_agents.config.sections import (
    CheckpointConfig,
    EnvironmentConfig,
    InferenceConfig,
    ModelConfig,
)
from llm_gym_agents.config.store import ConfigStore
from llm_gym_agents.config.training import TrainingConfig
from llm_gym_agents.config.warm_start import WarmStartConfig

__all__ = [
    "CheckpointConfig",
    "ConfigStore",
    "EnvironmentConfig",
    "InferenceConfig",
    "ModelConfig",
    "RayConfig",
    "Section",
    "TrainingConfig",
    "UnknownSettingError",
    "WarmStartConfig",
    "parse_args",
]
