"""Other names of ``PPOTrainer``: the config decides what any of them does."""

from __future__ import annotations

from typing import Any

from llm_gym.registry.sources import EnvSource
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.trainer import PPOTrainer


def create_trainer(
    config: ConfigStore, environment: EnvSource | None = None, **kwargs: Any
) -> PPOTrainer:
    """Return the trainer that ``config`` asks for."""
    return PPOTrainer(config, environment, **kwargs)


class RayPPOTrainer(PPOTrainer):
    """``PPOTrainer``, under the name of older programs; ``config.ray.use_ray`` decides for both."""
