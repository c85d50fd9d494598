"""FSDP2 on a GPU beside the plain learner: the same update, its seconds and its memory.

    python -m torch.distributed.run --standalone --nproc-per-node 1 benchmarks/fsdp_gpu.py

With one process for each card of a machine it measures how an update scales. Writes
``benchmarks/results/fsdp_gpu.json``; ``--tiny`` tries it out on a CPU.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.lib.machine import RESULTS, provenance
from llm_gym_agents import ConfigStore
from llm_gym_agents.distributed.ranks.process_group import join
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.single_process import SINGLE_PROCESS
from llm_gym_agents.model.weights import full_tensor
from llm_gym_agents.rollouts.rollout_data import NO_POSITION, RolloutData


def model(tiny: bool) -> LlamaForCausalLM:
    """Return half a billion random weights, or very few."""
    torch.manual_seed(0)
    shape = (64, 128, 2, 4, 512) if tiny else (1024, 4096, 24, 16, 49_152)
    hidden, mlp, layers, heads, vocabulary = shape
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=hidden,
            intermediate_size=mlp,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            vocab_size=vocabulary,
            max_position_embeddings=2048,
        )
    )


def batch(episodes: int, prompt: int, reply: int, vocabulary: int) -> RolloutData:
    """Return episodes of one turn with random tokens."""
    draw = torch.Generator().manual_seed(1)
    length = prompt + reply
    ids = torch.randint(vocabulary, (episodes * length,), generator=draw)
    at = torch.arange(episodes).repeat_interleave(reply) * length
    position = at + torch.arange(prompt - 1, length - 1).repeat(episodes)
    tokens = episodes * reply
    ends = torch.zeros(tokens, dtype=torch.bool)
    ends[reply - 1 :: reply] = True
    return RolloutData(
        ids_S=ids,
        sequence_lengths_Q=torch.full((episodes,), length),
        position_T=position,
        token_T=ids[position + 1],
        sampler_log_prob_T=torch.full((tokens,), -5.0),
        version_T=torch.zeros(tokens, dtype=torch.int64),
        turn_ends_T=ends,
        reward_T=torch.where(ends, torch.rand(tokens, generator=draw), 0.0),
        lengths_E=torch.full((episodes,), reply),
        sequences_E=torch.ones(episodes, dtype=torch.int64),
        terminated_E=torch.ones(episodes, dtype=torch.bool),
        bootstrap_E=torch.full((episodes,), NO_POSITION),
        group_E=torch.arange(episodes) // 4,
        episode_E=torch.arange(episodes),
        batch_size=[],
    )


def measured(learner: Learner, data: RolloutData, updates: int) -> dict[str, Any]:
    """Return seconds and memory of an update, and what it came to."""
    device = learner.device
    on_gpu = device.type == "cuda"
    learner.ppo.update(data)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
        torch.cuda.synchronize(device)
    start = perf_counter()
    for _ in range(updates):
        found = learner.ppo.update(data)
    if on_gpu:
        torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) / 2**30 if on_gpu else 0.0
    kept = torch.cuda.memory_allocated(device) / 2**30 if on_gpu else 0.0
    return {
        "update_s": round((perf_counter() - start) / updates, 4),
        "peak_gib": round(peak, 2),
        "between_gib": round(kept, 2),
        "loss": found["loss/policy"],
        "grad_norm": found["train/grad_norm"],
        "fused": bool(learner.ppo.optimizer.defaults.get("fused")),
    }


def main() -> None:
    """Measure the plain learner, replicas and shards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "fsdp_gpu.json")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    config = ConfigStore()
    episodes, prompt, reply = (8, 8, 8) if args.tiny else (64, 512, 256)
    config.training.batch_size = config.training.mini_batch_size = episodes
    config.training.ppo_epochs, config.training.learning_rate = 1, 1e-6
    lm = model(args.tiny)
    data = batch(episodes, prompt, reply, lm.config.vocab_size)
    result: dict[str, Any] = provenance(__file__, ["torch", "transformers"])
    weights: dict[str, dict[str, torch.Tensor]] = {}
    for mode in ("none", "ddp", "fsdp"):
        ranks = SINGLE_PROCESS if mode == "none" else join(mode)  # type: ignore[arg-type]
        where = "cuda" if torch.cuda.is_available() else "cpu"
        where = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if where == "cuda" else where
        learner = Learner.from_config(config, copy.deepcopy(lm).to(where), ranks)  # type: ignore[arg-type]
        result[mode] = {"world": ranks.world, **measured(learner, data, 3)}
        weights[mode] = {
            name: full_tensor(each).detach().cpu().clone()
            for name, each in learner.model.named_parameters()
        }
        gaps = (float((weights[mode][n] - each).abs().max()) for n, each in weights["none"].items())
        result[mode]["largest_weight_gap"] = max(gaps)
        if ranks.is_main:
            args.out.write_text(json.dumps(result, indent=1) + "\n")
            print(mode, json.dumps(result[mode]), flush=True)
        del learner
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
