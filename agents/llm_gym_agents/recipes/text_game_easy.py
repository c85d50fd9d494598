"""The laptop demo: from chance to a good player of a text adventure, on a CPU, in minutes.

A small Llama with random weights first learns to *write* moves, by imitating random legal ones:
it then speaks the game's language and plays at chance. PPO does the rest, from the 0/1 success,
potential-based shaping and a small penalty for moves that cannot be used. Nothing is shipped and
nothing is downloaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.recipes.recipe import Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ENV_ID = "llm_gym/TextGameEasy-v0"


def text_game_easy() -> Recipe:
    """Return the recipe."""
    config = ConfigStore()
    config.update(
        {
            "environment": {
                "env_id": ENV_ID,
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
            # It then speaks the game's language and plays at chance.
            "warm_start": {
                "player": "random",
                "turns": 8_000,
                "steps": 100,
                "rate": 3e-3,
            },
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
        prepare=prepare,
    )


def prepare(seed: int, hurry: bool = False) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return a small model of random weights, and its tokenizer of words.

    In a hurry its tokenizer has read little, to try out everything that comes after.
    """
    from llm_gym_agents.model.load import TINY_SPREAD, tiny_llama
    from llm_gym_agents.text.tokenizers import collect_vocabulary, word_tokenizer

    tokenizer = word_tokenizer(collect_vocabulary([ENV_ID], episodes=20 if hurry else 200))
    lm = tiny_llama(tokenizer, spread=TINY_SPREAD, seed=seed, context_length=256)
    return lm, tokenizer
