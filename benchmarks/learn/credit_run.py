"""One training run of ``benchmarks/learn/credit.py``, judged before and after."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from time import process_time
from typing import Any

import torch

from benchmarks.learn.learning_run import settings
from llm_gym_agents import PPOTrainer
from llm_gym_agents.commands.credit import credit
from llm_gym_agents.rollouts.pack import Packer


def judged(trainer: PPOTrainer, branches: int, turns: int) -> dict[str, Any]:
    """Return what the judge says of the policy and the critic as they are now."""
    config, ppo = trainer.config, trainer.learner.ppo
    report, _ = credit(
        str(config.environment.env_id),
        trainer.sampler.policy,
        config.training,
        episodes=128,
        branches=branches,
        turns=turns,
        max_turns=config.inference.max_turns,
        env_kwargs=config.environment.env_kwargs,
        critic=lambda data: ppo.stabilizers.unscale(ppo.scorer.score(Packer(data))),
    )
    return asdict(report)


def result(arguments: Sequence[str]) -> dict[str, Any]:
    """Train and judge one game; return the row of it."""
    game, seed, iterations, branches, turns, *flags = arguments
    torch.set_num_threads(1)
    config = settings(game, int(seed), "gae", flags)
    config.training.num_epochs, config.training.num_iters_per_epoch = 1, int(iterations)
    config.environment.eval_interval = 0
    start = process_time()
    with tempfile.TemporaryDirectory() as place:
        config.checkpoint.output_dir = place
        trainer = PPOTrainer(config)
        try:
            trainer.warm_up()
            before = judged(trainer, int(branches), int(turns))
            explained = [row["value/explained_variance"] for row in trainer.fit()]
            after = judged(trainer, int(branches), int(turns))
        finally:
            trainer.cleanup()
    return {
        "game": game,
        "seed": int(seed),
        "before": before,
        "after": after,
        "explained_in_training": explained,
        "cpu_s": round(process_time() - start, 1),
    }
