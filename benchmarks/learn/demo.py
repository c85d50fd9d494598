"""Does the laptop demo learn, seed after seed, and how fast?

Runs the recipe of ``make demo`` once per seed, each in its own process. Wall-clock and CPU seconds
are those of the whole command: imports, warm start, training and evaluations.

    python -m benchmarks.learn.demo    # writes benchmarks/results/demo.json

A run stops by its success on 200 held-out episodes; ``before`` and ``after`` are of 200 others, and
``fresh`` is the same model on 1,000 more. ``lib/figures.py`` draws the figure.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, time
from typing import Any

from benchmarks.lib.machine import RESULTS, ROOT, provenance
from llm_gym.episodes import read_episodes

RESULT = RESULTS / "demo.json"
PATHS = (
    "llm_gym/core",
    "llm_gym/reading",
    "llm_gym/envs/navigation/text_game",
    *(
        f"agents/llm_gym_agents/{room}"
        for room in (
            *("algo", "config", "engines/transformers", "learn", "model", "rollouts", "text"),
            "trainer",
        )
    ),
)
GOAL = 0.9


def success(path: Path) -> float:
    episodes = list(read_episodes(path))
    return sum(episode.success for episode in episodes) / len(episodes)


def held_out(folder: Path, began: float) -> list[tuple[int, float, float]]:
    """Return iteration, seconds since the command was given, and success of every evaluation."""
    records = {int(path.stem[-6:]): path for path in (folder / "episodes").glob("eval-*.jsonl")}
    records[0] = folder / "episodes" / "before.jsonl"
    return [
        (at, round(path.stat().st_mtime - began, 1), success(path))
        for at, path in sorted(records.items())
    ]


def fresh(folder: Path) -> float:
    """Return the success of a run's model on held-out episodes that it was not chosen by."""
    model = folder / "final"
    script = "import sys; from llm_gym_agents.commands.evaluate import main; main(sys.argv[1:])"
    settings = (
        "llm_gym/TextGameEasy-v0 --split test --seed 5000000 --episodes 1000 --num-envs 128 "
        "--context observation --temperature 1 --max-tokens 6 --json --system-prompt="
    )
    command = [sys.executable, "-c", script, *settings.split(), "--model", str(model)]
    # Two busy threads would spin against each other on tensors as small as these.
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=env)
    found: float = json.loads(done.stdout)[0]["success"]
    return found


def measure(seed: int, folder: Path, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "llm_gym", "train", "text-game-easy"]
    settings = ["--training.seed", str(seed), "--checkpoint.output-dir", str(folder)]
    start, before, began = perf_counter(), _cpu_seconds(), time()
    # Waiting passively keeps threads, where there are several, from spinning against each other.
    how = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    subprocess.run(
        [*command, *settings],
        check=True,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **how},
    )
    total, cpu = perf_counter() - start, _cpu_seconds() - before
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    config = json.loads((folder / "config.json").read_text())
    reached = next((row for row in rows if row.get("eval/success", 0.0) >= GOAL), None)
    return {
        "seed": seed,
        "before": success(folder / "episodes" / "before.jsonl"),
        "after": success(folder / "episodes" / "after.jsonl"),
        "fresh": fresh(folder),
        "iterations": len(rows),
        "episodes": len(rows) * config["training"]["batch_size"],
        "held_out": held_out(folder, began),
        "iterations_to_90": None if reached is None else reached["iteration"],
        # What is not an iteration: imports, warm start, evaluations, transcripts, the picture.
        "other_s": round(total - rows[-1]["time/elapsed_s"], 1),
        "training_s_to_90": None if reached is None else round(reached["time/elapsed_s"], 1),
        "total_s": round(total, 1),
        "cpu_s": round(cpu, 1),
    }


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1, help="of each run")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    packages = ("torch", "torchrl", "transformers")
    about = provenance(__file__, packages, depends_on=PATHS, seeds=args.seeds)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in args.seeds:
            row = measure(seed, Path(scratch) / f"seed-{seed}", args.threads)
            rows.append(row)
            print(json.dumps(row), flush=True)
            result = {**about, "goal": GOAL, "threads": args.threads, "rows": rows}
            args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
