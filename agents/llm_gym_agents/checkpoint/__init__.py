"""Checkpoints: safetensors and JSON, whole or absent. Start reading at ``checkpoints``."""

from llm_gym_agents.checkpoint.checkpoints import (
    Checkpoints,
    TrainerState,
    load_checkpoint,
    model_folder,
    number,
    restore_lm,
    save_checkpoint,
)
from llm_gym_agents.checkpoint.parts import (
    CheckpointError,
    Part,
    module_state,
    optimizer_state,
    rng_state,
    set_module_state,
    set_optimizer_state,
    set_rng_state,
)
from llm_gym_agents.checkpoint.weights import save_lm

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
