"""Recipes: published runs, each a config with its measured result.

    llm-gym train text-game-easy

Any setting can be changed on the command line. Recipes are part of the installed package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from llm_gym_agents.config import ConfigStore


class Recipe(NamedTuple):
    """A published run."""

    name: str
    about: str
    config: ConfigStore
    expected: str = ""
    """The measured result, and where it is published."""
    vocabulary_episodes: int = 0
    """Episodes that give a new small model its vocabulary; 0 if the config names a model."""


def text_game_easy() -> Recipe:
    """Return the laptop demo: from chance to a good player of a text adventure, on a CPU.

    A small Llama with random weights first learns to *write* moves by imitating random legal moves;
    it then plays at chance level. PPO learns to win from the 0/1 success, potential-based shaping
    and a small penalty for unusable moves. Nothing is downloaded.
    """
    from llm_gym_agents.config import ConfigStore

    config = ConfigStore()
    config.update(
        {
            "environment": {
                "env_id": "llm_gym/TextGameEasy-v0",
                # Shaping is potential-based: it adds up to nothing over an episode.
                "env_kwargs": {"rules": "system", "shaping": True, "penalty": 0.1},
                "eval_interval": 5,
                "eval_episodes": 200,
                # 192 of 200: the best of several looks is a lucky one, and fresh episodes are to be
                # won nine times of ten all the same.
                "stop_at_success": 0.92,
            },
            "inference": {
                "num_envs": 128,
                "max_tokens": 6,
                # One observation says all that matters, and reading less is three times cheaper.
                "context": "observation",
                # What observations begin with alike is so short that it is read faster than found.
                "engine": {"prefix_cache": False},
                # A model that knows this game only has no use for its rules.
                "system_prompt": "",
            },
            "warm_start": {"player": "random", "turns": 8_000, "steps": 100, "rate": 3e-3},
            "training": {
                "num_epochs": 6,
                "num_iters_per_epoch": 5,
                "batch_size": 128,
                "mini_batch_size": 16,
                "ppo_epochs": 2,
                "micro_batch_tokens": 4096,  # a mini-batch in two reads, which stay in the cache
                "learning_rate": 8e-4,
                "gamma": 0.9,
                "gae_lambda": 0.9,
                "entropy_coef": 0.01,
                "max_grad_norm": 0.5,
            },
        }
    )
    return Recipe(
        name="text-game-easy",
        about="A 92k-parameter Llama learns a text adventure from chance, on a CPU.",
        expected="held-out success from about 10 % to at least 90 % (benchmarks/results/demo.json)",
        config=config,
        vocabulary_episodes=200,
    )


NAMES = ("text-game-easy",)


def find_recipe(name: str) -> Recipe | None:
    """Return the recipe called ``name``, or None."""
    return text_game_easy() if name in NAMES else None
