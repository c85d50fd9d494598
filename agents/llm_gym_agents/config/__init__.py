"""The settings of a run: ``ConfigStore`` and its sections. Start reading at ``schema``."""

from llm_gym_agents.config.cli import parse_args
from llm_gym_agents.config.schema import (
    CheckpointConfig,
    EnvConfig,
    InferenceConfig,
    ModelConfig,
    ParallelConfig,
    RayConfig,
    Section,
    TrainingConfig,
    UnknownSettingError,
    WarmStartConfig,
)
from llm_gym_agents.config.store import ConfigStore

__all__ = [
    "CheckpointConfig",
    "ConfigStore",
    "EnvConfig",
    "InferenceConfig",
    "ModelConfig",
    "ParallelConfig",
    "RayConfig",
    "Section",
    "TrainingConfig",
    "UnknownSettingError",
    "WarmStartConfig",
    "parse_args",
]
