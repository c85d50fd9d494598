"""What recording training episodes costs an iteration.

The demo's settings are trained for some iterations, every one of which is recorded. CPU seconds are
counted, of the thread that trains (it copies the numbers of a few episodes) and of the thread that
writes the file, so that other work on the machine does not count. ``share`` is both together over
the CPU seconds of the whole iteration, ``share_waiting`` only what training waits for, and
``share_default`` what is left of ``share`` when every tenth iteration is recorded.

    python benchmarks/recording.py
    python benchmarks/recording.py --iterations 20 --episodes 4 128

Prints a table and writes ``benchmarks/results/recording.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import process_time, thread_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from machine import provenance
from torch import Tensor

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.recipes.text_game_easy import prepare, text_game_easy
from llm_gym_agents.rollouts.recorder import RolloutRecorder
from llm_gym_agents.rollouts.turns import Rollout
from llm_gym_agents.text.codec import TokenTexts
from llm_gym_agents.trainer import PPOTrainer

RESULT = Path(__file__).parent / "results" / "recording.json"
DEFAULT_EVERY = ConfigStore().checkpoint.record_every


class Counted(RolloutRecorder):
    """Notes the CPU seconds of both threads."""

    def __init__(self, folder: Path, episodes: int, pieces: TokenTexts) -> None:
        super().__init__(folder, 1, episodes, pieces)
        self.waiting: list[float] = []
        self.writing: list[float] = []

    def record(self, iteration: int, rollout: Rollout, trained: Mapping[str, Tensor]) -> None:
        start = thread_time()
        super().record(iteration, rollout, trained)
        self.waiting.append(thread_time() - start)

    def _write(self, place: Path, rollout: Rollout, numbers: Mapping[str, list[float]]) -> None:
        start = thread_time()
        super()._write(place, rollout, numbers)
        self.writing.append(thread_time() - start)


def measure(episodes: int, iterations: int) -> dict[str, Any]:
    """Train, and return what recording ``episodes`` of each iteration cost."""
    recipe = text_game_easy()
    recipe.config.environment.eval_interval = 0
    recipe.config.training.num_epochs, recipe.config.training.num_iters_per_epoch = 1, iterations
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        recipe.config.checkpoint.output_dir = folder
        recipe.config.checkpoint.save_interval = 0
        model, tokenizer = prepare(recipe.config, hurry=True)
        trainer = PPOTrainer(recipe.config, model=model, tokenizer=tokenizer)
        iterate = trainer._iterate
        counted = Counted(Path(folder), episodes, TokenTexts(tokenizer))
        trainer.files.recorder = iterate.recorder = counted

        def timed(*told: Any) -> dict[str, float]:
            start = process_time()
            row = iterate(*told)
            counted.wait()
            seconds.append(process_time() - start)
            return row

        trainer._iterate = timed  # type: ignore[assignment]
        try:
            trainer.fit()
        finally:
            trainer.cleanup()
        sizes = [path.stat().st_size for path in Path(folder).glob("episodes/train-*")]
    rows = slice(1, None)  # the first iteration warms up
    both = [a + b for a, b in zip(counted.waiting, counted.writing, strict=True)]
    share = statistics.median(a / b for a, b in zip(both[rows], seconds[rows], strict=True))
    waiting = statistics.median(
        a / b for a, b in zip(counted.waiting[rows], seconds[rows], strict=True)
    )
    return {
        "episodes": episodes,
        "iterations": iterations - 1,
        "iteration_cpu_s": round(statistics.median(seconds[rows]), 4),
        "waiting_cpu_ms": round(1e3 * statistics.median(counted.waiting[rows]), 3),
        "writing_cpu_ms": round(1e3 * statistics.median(counted.writing[rows]), 3),
        "bytes": int(statistics.median(sizes)),
        "share": round(share, 5),
        "share_waiting": round(waiting, 6),
        "share_default": round(share / DEFAULT_EVERY, 6),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--episodes", type=int, nargs="+", default=[4, 32])
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(episodes, options.iterations) for episodes in options.episodes]
    print("episodes  iteration s  waiting ms  writing ms    bytes   share  default")
    for row in rows:
        print(
            f"{row['episodes']:8d} {row['iteration_cpu_s']:12.3f} {row['waiting_cpu_ms']:11.2f}"
            f" {row['writing_cpu_ms']:11.2f} {row['bytes']:8d} {row['share']:7.2%}"
            f" {row['share_default']:8.3%}"
        )
    found = {**provenance(__file__, ["torch", "torchrl", "tensordict"]), "rows": rows}
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
