"""FSDP2 on a GPU beside the plain learner: the same update, its seconds and its memory.

    torchrun --standalone --nproc-per-node 1 -m benchmarks.scale.fsdp_gpu

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
from transformers import LlamaForCausalLM

from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.lib.synthetic import batch, llama
from llm_gym_agents import ConfigStore
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.single_process import SINGLE_PROCESS
from llm_gym_agents.model.weights import full_tensor
from llm_gym_agents.rollouts.rollout_data import RolloutData
from llm_gym_agents.trainer.process_group import join

SHAPES = {True: (64, 2, 4, 4, 128, 512), False: (1024, 24, 16, 16, 4096, 49_152)}
"""Very few weights, or half a billion of them."""


def measured(learner: Learner, data: RolloutData, updates: int) -> dict[str, Any]:
    """Return seconds and memory of an update, and what it came to."""
    device = learner.model.device
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
    torch.manual_seed(0)
    lm = LlamaForCausalLM(llama(*SHAPES[args.tiny]))
    data = batch(lm.config.vocab_size, episodes, 1, prompt, reply)
    result: dict[str, Any] = provenance(__file__, ["torch", "transformers"])
    weights: dict[str, dict[str, torch.Tensor]] = {}
    for mode in ("none", "ddp", "fsdp"):
        ranks = SINGLE_PROCESS if mode == "none" else join(mode)  # type: ignore[arg-type]
        where = "cuda" if torch.cuda.is_available() else "cpu"
        where = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if where == "cuda" else where
        learner = Learner(copy.deepcopy(lm).to(where), config.training, config.model, ranks=ranks)  # type: ignore[arg-type]
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
