"""A training run that counts the episodes that reach the learner, and times iterations."""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

from llm_gym_agents import ConfigStore, PPOTrainer

TIMED = ("time/", "ray/", "engine/")
"""Metrics that depend on the machine and its load."""


def served_config(args: argparse.Namespace, folder: str) -> ConfigStore:
    """Return a run that saves nothing; its small learning rate keeps episodes equally long."""
    config = ConfigStore()
    config.inference.backend = args.engine
    if args.engine == "vllm":
        # A cache of known size: engines that share a card can start at the same time.
        own = {"cache_gb": args.cache_gb, "max_model_len": args.context, "sleeps": False}
        config.inference.engine = own
    config.inference.max_tokens, config.inference.max_turns = args.max_tokens, args.turns
    config.inference.num_envs = config.training.batch_size = args.episodes
    config.training.mini_batch_size = max(args.episodes // 4, 1)
    config.training.learning_rate = 1e-7
    config.training.num_epochs, config.training.num_iters_per_epoch = 1, args.iterations
    config.environment.env_id, config.environment.eval_interval = args.env, 0
    config.warm_start.player = "none"
    config.checkpoint.output_dir, config.checkpoint.save_interval = folder, 0
    config.checkpoint.record_every = 0
    return config


class CountedRun:
    """A trainer, the ids of its episodes, and the times at which its iterations ended."""

    def __init__(self, config: ConfigStore, **given: Any) -> None:
        began = perf_counter()
        self.trainer = trainer = PPOTrainer(config, **given)
        self.start_s = perf_counter() - began
        """Seconds until engines and environments were ready."""
        trainer.on_warning = lambda sentence: None
        self.ids: list[Any] = []
        self.moments: list[float] = []
        play = trainer.sampler.play

        def counted(*args: Any, **how: Any) -> Any:
            rollout = play(*args, **how)
            self.ids.extend(episode.episode_id for episode in rollout.all_episodes)
            return rollout

        trainer.sampler.play = counted  # type: ignore[method-assign]
        trainer.callbacks.append(lambda *_: self.moments.append(perf_counter()))


def untimed(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    return [
        {name: value for name, value in row.items() if not name.startswith(TIMED)} for row in rows
    ]
