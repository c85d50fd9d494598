"""What a checkpoint holds of a trainer, and how a trainer goes on from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_gym_agents.checkpoint import (
    CheckpointError,
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
    from llm_gym_agents.rollouts.sources import EnvSource
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
                "given": trainer.given,
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
    if trainer.ppo.reference is not None and "reference" not in state.parts:
        raise CheckpointError(
            "a KL to the reference needs a checkpoint that has one, got one of a run without; "
            "training.use_kl_in_reward or use_kl_in_loss must be as it was"
        )
    restore_lm(trainer.lm, state)
    set_module_state(trainer.model, state.parts["critic"], skip=("lm.",))
    groups = trainer.ppo.optimizer.param_groups
    settings = [{name: group[name] for name in group if name != "params"} for group in groups]
    set_optimizer_state(trainer.ppo.optimizer, trainer.model, state.parts["optimizer"])
    for group, own in zip(groups, settings, strict=True):
        group.update(own)
    if trainer.ppo.reference is not None:
        set_module_state(trainer.ppo.reference, state.parts["reference"])
    run = state.parts["run"].values
    trainer.ppo.kl_control.load_state_dict(run["kl"])
    trainer.curriculum.difficulty = run["difficulty"]
    trainer.elapsed_s = run["elapsed_s"]
    trainer.iteration, trainer.success = state.iteration, state.success
    set_rng_state(state.parts["rng"])
    trainer.publisher.publish(trainer.iteration)


def handed_over(environment: EnvSource | None, **objects: Any) -> list[str]:
    """Return the names of what a program gave that no file can bring back."""
    named = environment is None or isinstance(environment, str)
    return [name for name, each in objects.items() if each is not None] + ["environment"] * (
        not named
    )
