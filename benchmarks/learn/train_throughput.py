"""What PPO costs beside the same forward and backward passes, in time and in memory.

*Time.* ``PPO.update`` trains on a batch of multi-turn episodes, in turn with a plain loop over the
very same packs: forward, backward, optimizer step on the mean log-prob, no RL. ``ratio`` is
sampled tokens per second of the update over those of the loop. An update also reads the batch
once more before it changes the weights, to know the old log-probs and values; ``ratio_same_reads``
gives the loop that pass too, so what is left is our own overhead.

*Memory.* Peak memory of one update at a vocabulary of 50k, each in a process of its own, above
what the process held before: our chunked head beside the same loss on full logits.

    python -m benchmarks.learn.train_throughput
    python -m benchmarks.learn.train_throughput --repeats 9

Prints tables and writes ``benchmarks/results/train_throughput.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers import LlamaForCausalLM

from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.lib.synthetic import batch, llama
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.model import head
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.pack import Packer
from llm_gym_agents.rollouts.rollout_data import RolloutData

RESULT = RESULTS / "train_throughput.json"
MODELS = {
    # name: hidden size, layers, vocabulary, episodes, turns, prompt, reply
    "demo": (64, 2, 200, 128, 6, 40, 5),
    "11M": (256, 4, 16_000, 8, 4, 32, 16),
}
VOCABULARY = 50_000
MEMORY_MODEL = (256, 2, VOCABULARY, 8, 4, 64, 32)


def build(hidden: int, layers: int, vocabulary: int, episodes: int) -> PPO:
    torch.manual_seed(0)
    lm = LlamaForCausalLM(llama(hidden, layers, 4, 4, 2 * hidden, vocabulary))
    config = ConfigStore().training
    config.batch_size, config.mini_batch_size = episodes, max(1, episodes // 4)
    return PPO(PolicyValueModel(lm.train()), config)


def bare(ppo: PPO, data: RolloutData, optimizer: torch.optim.Optimizer, *, read: bool) -> None:
    """Train on the packs of ``PPO.update``, without RL; ``read`` the batch once before."""
    packer, config = Packer(data), ppo.config
    episodes, size = list(range(len(data.lengths_E))), config.mini_batch_size
    if read:
        with torch.no_grad():
            for pack in packer.within(episodes, config.micro_batch_tokens):
                ppo.model(*pack[:4])
    for _ in range(config.ppo_epochs):
        for first in range(0, len(episodes), size):
            optimizer.zero_grad(set_to_none=True)
            packs = packer.within(episodes[first : first + size], config.micro_batch_tokens)
            for pack in packs:
                scores = ppo.model(*pack[:4])
                (-scores.log_prob_T.mean() - 0.01 * scores.entropy_T.mean()).backward()
            optimizer.step()


def speed(name: str, repeats: int) -> dict[str, Any]:
    hidden, layers, vocabulary, episodes, *shape = MODELS[name]
    data = batch(vocabulary, episodes, *shape)
    ppo = build(hidden, layers, vocabulary, episodes)
    optimizer = torch.optim.AdamW(ppo.model.lm.parameters(), lr=1e-5)
    runs: dict[str, Callable[[], Any]] = {
        "update": lambda: ppo.update(data),
        "bare": lambda: bare(ppo, data, optimizer, read=False),
        "bare_same_reads": lambda: bare(ppo, data, optimizer, read=True),
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    for run in runs.values():
        run()
    for _ in range(repeats):
        for kind, run in runs.items():
            start = perf_counter()
            run()
            seconds[kind].append(perf_counter() - start)
    tokens = data.tokens * ppo.config.ppo_epochs
    median = {kind: statistics.median(times) for kind, times in seconds.items()}
    # Of one round each, because the machine's pace changes between rounds.
    pairs = {
        kind: statistics.median(
            other / own for other, own in zip(seconds[kind], seconds["update"], strict=True)
        )
        for kind in ("bare", "bare_same_reads")
    }
    return {
        "model": name,
        "parameters": sum(p.numel() for p in ppo.model.parameters()),
        "sampled_tokens": data.tokens,
        "read_tokens": data.ids_S.numel(),
        "ppo_epochs": ppo.config.ppo_epochs,
        "tokens_per_s": tokens / median["update"],
        "bare_tokens_per_s": tokens / median["bare"],
        "ratio": pairs["bare"],
        "ratio_same_reads": pairs["bare_same_reads"],
    }


def peak(kind: str) -> dict[str, float]:
    """Return the MiB that one update adds at its peak, in this process, and its seconds."""
    hidden, layers, vocabulary, episodes, *shape = MEMORY_MODEL
    if kind == "full_logits":
        head.CHUNK_BYTES["cpu"] = 2**62
    data, ppo = batch(vocabulary, episodes, *shape), build(hidden, layers, vocabulary, episodes)
    ppo.config.mini_batch_size = episodes
    ppo.config.ppo_epochs = 1
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before, start = memory("VmRSS"), perf_counter()
    ppo.update(data)
    return {"mib": memory("VmHWM") - before, "seconds": perf_counter() - start}


def memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def memory_beside_full_logits() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in ("chunked", "full_logits"):
        command = [sys.executable, "-m", "benchmarks.learn.train_throughput", "--peak", kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[kind] = json.loads(done.stdout.splitlines()[-1])
    _, _, vocabulary, episodes, turns, _, reply = MEMORY_MODEL
    return {
        "vocabulary": vocabulary,
        "sampled_tokens": episodes * turns * reply,
        "chunked_mib": found["chunked"]["mib"],
        "full_logits_mib": found["full_logits"]["mib"],
        "ratio": found["chunked"]["mib"] / found["full_logits"]["mib"],
        "chunked_s": found["chunked"]["seconds"],
        "full_logits_s": found["full_logits"]["seconds"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peak", choices=("chunked", "full_logits"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(json.dumps(peak(options.peak)))
        return
    speeds = [speed(name, options.repeats) for name in MODELS]
    print(
        f"{'model':<8}{'parameters':>12}{'tokens/s':>10}{'bare':>10}{'ratio':>8}{'same reads':>12}"
    )
    for row in speeds:
        print(
            f"{row['model']:<8}{row['parameters']:>12,}{row['tokens_per_s']:>10,.0f}"
            f"{row['bare_tokens_per_s']:>10,.0f}{row['ratio']:>8.2f}{row['ratio_same_reads']:>12.2f}"
        )
    held = memory_beside_full_logits()
    print(
        f"\npeak memory of an update, {held['sampled_tokens']} tokens of {VOCABULARY}: "
        f"{held['chunked_mib']:,.0f} MiB, on full logits {held['full_logits_mib']:,.0f} MiB "
        f"({held['ratio']:.2f})"
    )
    result = provenance(__file__, ("torch", "torchrl", "transformers"))
    result |= {"speed": speeds, "memory": held}
    RESULT.write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
