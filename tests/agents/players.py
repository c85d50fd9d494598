"""A small model that writes random legal moves: it plays at chance, and can learn in seconds."""

import functools
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.core.env import TextEnv
from llm_gym_agents.learn.imitation import DialogueEncoder, imitate, play_demonstrations
from llm_gym_agents.model.load import tiny_llama
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.tokenizers import word_tokenizer


@functools.cache
def player_at_chance(
    env_id: str, *, layers: int = 1, steps: int = 30, **settings: Any
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return a model and its tokenizer of words. Copy the model before you train it."""
    env = gym.make(env_id, rules="system", **settings).unwrapped
    assert isinstance(env, TextEnv)
    tokenizer = word_tokenizer(_texts(env))
    lm = tiny_llama(tokenizer, hidden_size=32, layers=layers, context_length=256)
    # Weights of about 1 / sqrt(width): after 4 iterations on Echo they are where the usual 0.02
    # is after 12, or not even then (three seeds of each).
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for name, weight in lm.named_parameters():
            if "norm" not in name:
                torch.nn.init.normal_(weight, std=0.2)
    encoder = DialogueEncoder(ChatFormat.from_tokenizer(tokenizer), "observation", "")
    turns = play_demonstrations(env, "random", encoder, 512, split="train")
    model = PolicyValueModel(lm.train(), critic="none")
    imitate(model, turns, steps=steps, batch_size=64, learning_rate=5e-3)
    return lm, tokenizer


def _texts(env: TextEnv) -> Iterator[str]:
    for seed in range(30):
        observation, _ = env.reset(seed=seed)
        yield observation
        done = False
        while not done:
            move = env.random_action()
            observation, _, terminated, truncated, _ = env.step(move)
            done = terminated or truncated
            yield from (move, observation)
