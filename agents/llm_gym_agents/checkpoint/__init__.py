"""Checkpoints: safetensors and JSON, whole or not there. Start reading at ``state``."""

from llm_gym_agents.checkpoint.keep import Checkpoints, number
from llm_gym_agents.checkpoint.lm import save_lm
from llm_gym_agents.checkpoint.modules import module_state, set_module_state
from llm_gym_agents.checkpoint.optimizer import optimizer_state, set_optimizer_state
from llm_gym_agents.checkpoint.part import CheckpointError, Part
from llm_gym_agents.checkpoint.rng import rng_state, set_rng_state
from llm_gym_agents.checkpoint.state import (
    TrainerState,
    load_checkpoint,
    model_folder,
    restore_lm,
    save_checkpoint,
)

__all__ = [
    "CheckpointError",
    "Checkpoints",
    "Part",
    "TrainerState",
    "load_checkpoint",
    "model_folder",
    "module_state",
    "number",
    "optimizer_state",
    "restore_lm",
    "rng_state",
    "save_checkpoint",
    "save_lm",
    "set_module_state",
    "set_optimizer_state",
    "set_rng_state",
]
