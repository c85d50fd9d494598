"""Do the guards of long runs hold: does a good player fall back, and which guard is worth what?

Trains GuessTheNumberEasy with the embedded model, at the defaults of ``llm-gym train`` and about
40,000 episodes, which is long enough to have fallen from .88 to .77 at a constant rate. Each
variant changes one thing; ``before`` is how it was: a constant rate, and the last weights at the
end. Every run has a process and a thread of its own.

    python benchmarks/guards.py --jobs 2
    python benchmarks/guards.py --only default before --seeds 0 1 2 --jobs 6

A run chooses its weights by evaluations of 100 episodes; ``best`` and ``last`` are the success of
what it chose, and of its last weights, on 1,000 other held-out episodes.

Prints a table and writes ``benchmarks/results/guards.json``, a row as soon as it is there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from machine import provenance

RESULT = Path(__file__).parent / "results" / "guards.json"
ENV_ID = "llm_gym/GuessTheNumberEasy-v0"
EPISODES, FRESH = 40_000, 1000
WHOLE = {"environment.stop_at_success": None, "environment.stop_when_sure": False}
"""To its full length, so that curves can be compared."""
GROUPS = {"training.adv_estimator": "grpo", "training.group_size": 8}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "before": WHOLE | {"training.lr_schedule": "constant", "checkpoint.end_with_best": False},
    "linear": WHOLE,
    "cosine": WHOLE | {"training.lr_schedule": "cosine"},
    "entropy 0.2": WHOLE | {"training.entropy_target": 0.2},
    "normalised values": WHOLE | {"training.normalise_values": True},
    "detached critic": WHOLE | {"model.critic": "detached"},
    "groups": WHOLE | GROUPS,
    "groups replaced": WHOLE | GROUPS | {"training.replace_flat_groups": 2},
}


def train(variant: str, seed: int, episodes: int, folder: Path) -> dict[str, Any]:
    """Train once, in this process, and return how it went."""
    from llm_gym_agents.config import ConfigStore
    from llm_gym_agents.config.defaults import apply_defaults
    from llm_gym_agents.config.situation import look
    from llm_gym_agents.trainer import PPOTrainer

    config = ConfigStore()
    config.environment.env_id = ENV_ID
    config.training.seed, config.checkpoint.output_dir = seed, str(folder)
    config.checkpoint.record_every = 0
    changed = {"training.num_epochs": 1, **VARIANTS[variant]}
    for name, value in changed.items():
        section, setting = name.split(".")
        setattr(getattr(config, section), setting, value)
    apply_defaults(config, look(config), changed)
    an_epoch = config.training.batch_size * config.training.num_iters_per_epoch
    config.training.num_epochs = max(1, round(episodes / an_epoch))
    trainer = PPOTrainer(config)
    try:
        rows = trainer.fit()
        best = fresh(trainer)
        trainer.load_checkpoint(trainer.checkpoints.latest() or folder)
        last = fresh(trainer)
    finally:
        trainer.cleanup()
    evaluated = [row for row in rows if "eval/success" in row]
    return {
        "episodes": len(rows) * config.training.batch_size,
        "best": best,
        "last": last,
        "curve": [[row["iteration"], row["eval/success"]] for row in evaluated],
        "entropy": [round(row["policy/entropy"], 4) for row in evaluated],
        "flat groups": [row["group/no_spread"] for row in evaluated if "group/no_spread" in row],
        "explained": [
            round(row["value/explained_variance"], 3)
            for row in evaluated
            if "value/explained_variance" in row
        ],
    }


def fresh(trainer: Any) -> float:
    """Return the success on held-out episodes by which nothing was chosen."""
    seen = trainer.config.environment.eval_episodes
    played = trainer.evaluate(seen + FRESH).episodes[seen:]
    return float(sum(episode.success for episode in played) / len(played))


def run(variant: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        own = ["--one", variant, str(seed), folder, "--episodes", str(options.episodes)]
        done = subprocess.run(
            [sys.executable, __file__, *own],
            capture_output=True,
            text=True,
            check=False,
            timeout=options.seconds,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"variant": variant, "seed": seed, **row}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--seconds", type=float, default=3600, help="most of one run")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.one:
        variant, seed, folder = options.one
        start, cpu = perf_counter(), process_time()
        row = train(variant, int(seed), options.episodes, Path(folder))
        took = {"seconds": perf_counter() - start, "cpu_seconds": process_time() - cpu}
        print(json.dumps({**row, **{name: round(value, 1) for name, value in took.items()}}))
        return
    about = provenance(__file__, ("torch", "torchrl", "transformers"))
    rows: list[dict[str, Any]] = []
    failed: list[str] = []

    def job(task: tuple[int, str]) -> None:
        seed, variant = task
        try:
            row = run(variant, seed, options)
        except Exception as error:  # noqa: BLE001 - the other runs go on, and this is written down
            failed.append(f"{variant}, seed {seed}: {error}")
            print(failed[-1], flush=True)
            return
        rows.append(row)
        numbers = (row["best"], row["last"], max(value for _, value in row["curve"]))
        shown = "".join(f"{number:>8.1%}" for number in numbers)
        print(f"{variant:<20}{seed:>3}{shown}{row['seconds']:>8.0f}", flush=True)
        known = sorted(rows, key=lambda each: (list(VARIANTS).index(each["variant"]), each["seed"]))
        result = {**about, "env": ENV_ID, "rows": known, "failed": failed}
        options.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")

    print(f"{'':<20}{'seed':>3}{'best':>7}{'last':>8}{'peak':>8}{'s':>8}")
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(job, [(seed, name) for seed in options.seeds for name in options.only]))


if __name__ == "__main__":
    main()
