"""Settings of a run that takes a second, and environments of one turn."""

from functools import partial

import gymnasium as gym

from llm_gym.core.spaces import AnyText
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.model.load import tiny_llama

one_layer = partial(tiny_llama, hidden_size=32, layers=1)
"""The embedded model of small runs."""

SMALL = {
    "inference": {"num_envs": 4, "max_tokens": 3, "max_turns": 2},
    "training": {
        "num_epochs": 1,
        "num_iters_per_epoch": 1,
        "batch_size": 4,
        "mini_batch_size": 4,
        "ppo_epochs": 1,
    },
    "environment": {"eval_interval": 0, "eval_episodes": 2, "max_steps": 2},
}


def small(folder, **sections):
    config = ConfigStore.from_dict(SMALL)
    config.checkpoint.output_dir = str(folder)
    config.update(sections)
    return config


def config_with(**settings):
    """Return a config with some settings; two underscores stand for the dot."""
    config = ConfigStore()
    for name, value in settings.items():
        section, setting = name.split("__", 1)
        setattr(getattr(config, section), setting, value)
    return config


def trained(*args, **given):
    """Return a trainer with these arguments that has trained, and is cleaned up."""
    trainer = PPOTrainer(*args, **given)
    try:
        trainer.fit()
    finally:
        trainer.cleanup()
    return trainer


def untimed(rows):
    """Return rows of metrics without what depends on the clock."""
    return [{name: row[name] for name in row if not name.startswith("time/")} for row in rows]


class Odd(gym.Env):
    """One turn; subclasses break it."""

    observation_space = action_space = AnyText(100)
    reward = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "?", {}

    def step(self, action):
        return "!", self.reward, True, False, {}


class NeverBegins(Odd):
    def reset(self, *, seed=None, options=None):
        raise RuntimeError("no such level")


class BreaksOnce(Odd):
    def step(self, action):
        if self.np_random.random() < 0.5:
            raise RuntimeError("the database is gone")
        return super().step(action)
