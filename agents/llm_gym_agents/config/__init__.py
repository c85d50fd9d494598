"""The settings of a run: ``ConfigStore`` and its sections. Start reading at ``schema``."""

from llm_gym_agents.config.cli import parse_args
from llm_gym_agents.config.schema import (
    CheckpointConfig,
    ConfigStore,
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
