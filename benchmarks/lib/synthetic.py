"""Models with random weights and batches with random tokens, for benchmarks of an update."""

from __future__ import annotations

import torch
from transformers import LlamaConfig

from llm_gym_agents.rollouts.rollout_data import NO_POSITION, RolloutData


def llama(
    hidden: int, layers: int, heads: int, groups: int, mlp: int, vocabulary: int, tied: bool = False
) -> LlamaConfig:
    """Return the config of a Llama; ``groups`` are its key-value heads."""
    return LlamaConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        intermediate_size=mlp,
        vocab_size=vocabulary,
        max_position_embeddings=8192,
        tie_word_embeddings=tied,
    )


def batch(vocabulary: int, episodes: int, turns: int, prompt: int, reply: int) -> RolloutData:
    """Return episodes in history context, each turn ``prompt`` ids read and ``reply`` sampled."""
    torch.manual_seed(0)
    length, tokens = turns * (prompt + reply), episodes * turns * reply
    ids_S = torch.randint(vocabulary, (episodes * length,))
    starts_K = torch.arange(episodes * turns) * (prompt + reply) + prompt - 1
    position_T = (starts_K[:, None] + torch.arange(reply)).reshape(-1)
    ends_T = torch.arange(tokens) % reply == reply - 1
    return RolloutData(
        ids_S=ids_S,
        sequence_lengths_Q=torch.full((episodes,), length),
        position_T=position_T,
        token_T=ids_S[position_T + 1],
        sampler_log_prob_T=torch.zeros(tokens),
        version_T=torch.zeros(tokens, dtype=torch.int64),
        turn_ends_T=ends_T,
        reward_T=ends_T * torch.rand(tokens),
        lengths_E=torch.full((episodes,), turns * reply),
        sequences_E=torch.ones(episodes, dtype=torch.int64),
        terminated_E=torch.ones(episodes, dtype=torch.bool),
        bootstrap_E=torch.full((episodes,), NO_POSITION),
        group_E=torch.arange(episodes),
        episode_E=torch.arange(episodes),
        batch_size=[],
    )
