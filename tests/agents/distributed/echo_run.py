"""A small run on ``Echo`` that learns, played by whoever the ``ray`` settings say."""

import contextlib
import copy

from llm_gym_agents import PPOTrainer
from tests.agents.config.effect_run import ECHO, configured
from tests.agents.distributed.in_process import without_ray
from tests.agents.players import player_at_chance

ECHO_RUN = {
    "training.num_iters_per_epoch": 3,
    "training.batch_size": 12,
    "training.mini_batch_size": 6,
    "inference.isolated_batch_size": 4,
    "environment.eval_interval": 2,
    "environment.eval_episodes": 6,
}


def echo_trainer(folder, given=None, *, env=None, in_process=False, **ray):
    """Return a trainer; keywords are settings of ``ray``, which is used if there are any.

    ``in_process`` keeps the actors in this process.
    """
    settings = ECHO_RUN | {f"ray.{name}": value for name, value in ray.items()} | (given or {})
    if ray or in_process:
        settings["ray.use_ray"] = True
    lm, tokenizer = player_at_chance(ECHO, words=4, max_turns=2)
    config = configured(settings, folder)
    with without_ray() if in_process else contextlib.nullcontext():
        trainer = PPOTrainer(config, env, model=copy.deepcopy(lm), tokenizer=tokenizer)
    trainer.on_warning = lambda sentence: None
    return trainer


def echo_rows(folder, given=None, *, env=None, **ray):
    """Train, and return the rows of numbers that do not depend on time or place."""
    trainer = echo_trainer(folder, given, env=env, **ray)
    try:
        return [comparable(row) for row in trainer.fit()]
    finally:
        trainer.cleanup()


def comparable(row):
    apart = ("time/", "ray/", "engine/")
    return {name: value for name, value in row.items() if not name.startswith(apart)}
