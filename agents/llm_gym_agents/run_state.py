"""What a checkpoint holds of a trainer, and how a trainer goes on from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_gym_agents.checkpoint import (
    Part,
    TrainerState,
    module_state,
    optimizer_state,
    restore_lm,
    rng_state,
    set_module_state,
    set_optimizer_state,
    set_rng_state,
)

if TYPE_CHECKING:
    from llm_gym_agents.trainer import PPOTrainer


def state_of(trainer: PPOTrainer) -> TrainerState:
    """Return everything that decides how the run goes on, besides its language model."""
    ppo = trainer.ppo
    parts = {
        "critic": module_state(trainer.model, skip=("lm.",)),
        "optimizer": optimizer_state(ppo.optimizer, trainer.model),
        "rng": rng_state(),
        "run": Part(
            values={
                "kl": dict(ppo.kl_control.state_dict()),
                "difficulty": trainer.curriculum.difficulty,
                "elapsed_s": trainer.elapsed_s,
            }
        ),
    }
    if ppo.reference is not None:
        parts["reference"] = module_state(ppo.reference)
    return TrainerState(
        iteration=trainer.iteration,
        config=trainer.config.to_dict(),
        parts=parts,
        success=trainer.success,
    )


def restore(trainer: PPOTrainer, state: TrainerState) -> None:
    """Put ``trainer`` where ``state`` was. What the config says now wins over what it said."""
    restore_lm(trainer.lm, state)
    set_module_state(trainer.model, state.parts["critic"], skip=("lm.",))
    rates = [group["base_lr"] for group in trainer.ppo.optimizer.param_groups]
    set_optimizer_state(trainer.ppo.optimizer, trainer.model, state.parts["optimizer"])
    for group, rate in zip(trainer.ppo.optimizer.param_groups, rates, strict=True):
        group["base_lr"] = rate
    if trainer.ppo.reference is not None:
        set_module_state(trainer.ppo.reference, state.parts["reference"])
    run = state.parts["run"].values
    trainer.ppo.kl_control.load_state_dict(run["kl"])
    trainer.curriculum.difficulty = run["difficulty"]
    trainer.elapsed_s = run["elapsed_s"]
    trainer.iteration, trainer.success = state.iteration, state.success
    set_rng_state(state.parts["rng"])
    trainer.engine.update_weights(trainer.lm.named_parameters(), trainer.iteration)
