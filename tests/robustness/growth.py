"""Two thousand updates of a small run: does its memory grow?

    python -m tests.robustness.growth
    python -m tests.robustness.growth --updates 200

Prints the resident memory every hundredth of the run, and fails where the last quarter of it has
grown by more than ``MOST``, or where half of the batches moved no weight. ``make growth`` runs it.
"""

import argparse
import gc
import json
import os
import tempfile
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from llm_gym_agents import ConfigStore, PPOTrainer

MOST = 16 << 20
"""Bytes: a row of metrics is a few kilobytes, and an update that stayed would be hundreds."""
SETTINGS: dict[str, dict[str, Any]] = {
    "environment": {
        "env_id": "llm_gym/Echo-v0",
        "env_kwargs": {"rules": "system"},
        "eval_interval": 100,
        "eval_episodes": 4,
    },
    "inference": {"context": "observation", "system_prompt": "", "max_tokens": 2, "num_envs": 4},
    "training": {"batch_size": 4, "mini_batch_size": 4, "ppo_epochs": 1, "learning_rate": 1e-4},
    "warm_start": {"player": "random", "turns": 100, "steps": 20, "rate": 1e-2},
    "checkpoint": {"record_every": 50},
}


def resident() -> int:
    """Return this process's resident memory in bytes."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=2000)
    options = parser.parse_args()
    sizes: list[int] = []
    steps = 0
    every = max(1, options.updates // 100)

    def watch(trainer: PPOTrainer, row: dict[str, float]) -> None:
        nonlocal steps
        steps += row["train/signal"] > 0
        if trainer.iteration % every == 0:
            sizes.append(resident())

    with tempfile.TemporaryDirectory() as folder:
        config = ConfigStore.from_dict(SETTINGS)
        config.checkpoint.output_dir = folder
        trainer = PPOTrainer(config, callbacks=[watch])
        trainer.fit(10, options.updates // 10)
        trainer.cleanup()
    grown = sizes[-1] - sizes[len(sizes) * 3 // 4]
    summary = {"updates": steps, "grown": grown, "mib": [each >> 20 for each in sizes]}
    print(json.dumps(summary))
    return int(grown > MOST or steps < options.updates / 2)


if __name__ == "__main__":
    raise SystemExit(main())
