"""Two players and a learner on one GPU under Ray: waiting for new weights, and playing ahead.

*sync* plays on Ray actors that wait for new weights (``ray.staleness=0``). *staleness_1* uses the
same actors, which play the next batch during the update; ``--rounds`` repeats the two. The learning
rate is small, so that episodes stay equally long.

    python -m benchmarks.scale.ray_gpu --model FOLDER
    python -m benchmarks.scale.ray_gpu --engine transformers --model tiny --episodes 8 --share 0

Writes ``benchmarks/results/ray_gpu.json`` (or ``--out``) after each iteration. Engines start before
the clock (``start_s``). Figures leave out the first and the last iteration of a stage, which play
nothing ahead; ``ids`` says whether every episode came once, in order.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "4")

from benchmarks.lib.counted import CountedRun, served_config
from benchmarks.lib.machine import RESULTS, provenance
from llm_gym_agents import ConfigStore

RESULT = RESULTS / "ray_gpu.json"
STAGES = {"sync": 0, "staleness_1": 1}
"""How far playing runs ahead in each stage."""
Step = tuple[dict[str, float], float | None]
"""Metrics of an iteration, and its seconds; None for those that are left out."""
SHOWN = ("time/", "ray/", "engine/", "mismatch/", "episode/")
"""Groups of metrics that are kept."""


def settings(args: argparse.Namespace, folder: str) -> ConfigStore:
    config = served_config(args, folder)
    config.model.model_name = args.model
    config.ray.use_ray, config.ray.num_actors = True, args.actors
    config.ray.num_gpus_per_actor = args.share
    return config


def measure(args: argparse.Namespace, keep: Callable[[dict[str, Any]], None]) -> None:
    """Train through the stages in turn; ``keep`` gets what they came to after each iteration."""
    with tempfile.TemporaryDirectory() as folder:
        run = CountedRun(settings(args, f"{folder}/run"))
        run.trainer.checkpoints.save = lambda *_, **__: None  # type: ignore[method-assign]
        print(f"engines are there after {run.start_s:.1f} s", flush=True)
        found: dict[str, Any] = {}
        seen: dict[str, list[Step]] = {stage: [] for stage in STAGES}
        try:
            for first, (stage, staleness) in enumerate(list(STAGES.items()) * args.rounds):
                run.trainer.config.ray.staleness = staleness
                done = first * args.iterations

                def note(_: Any, row: dict[str, float], stage=stage, done=done) -> None:
                    moments = run.moments[done:]
                    counts = 1 < len(moments) < args.iterations
                    took = moments[-1] - moments[-2] if counts else None
                    seen[stage].append((row, took))
                    ids = run.ids == list(range(args.episodes * len(run.moments)))
                    found[stage] = {"start_s": round(run.start_s, 2), "ids": ids}
                    found[stage] |= figures(seen[stage], args.episodes)
                    keep(found)
                    print(f"{stage}: iteration {len(moments)} of {args.iterations}", flush=True)

                run.trainer.callbacks.append(note)
                run.trainer.fit(num_iters_per_epoch=done + args.iterations)
                run.trainer.callbacks.pop()
        finally:
            run.trainer.cleanup()


def figures(steps: list[Step], episodes: int) -> dict[str, Any]:
    kept = [
        ({name: value for name, value in row.items() if name.startswith(SHOWN)}, took)
        for row, took in steps
    ]
    found: dict[str, Any] = {"iterations": [row for row, _ in kept]}
    later = [(row, took) for row, took in kept if took is not None]
    if later:
        seconds = [took for _, took in later]
        tokens = sum(row["episode/tokens"] * episodes for row, _ in later)
        found |= {
            "iteration_s": round(statistics.median(seconds), 3),
            "tokens_per_s": round(tokens / sum(seconds), 1),
            "episodes_per_s": round(episodes * len(later) / sum(seconds), 2),
            "tokens_per_episode": round(tokens / (episodes * len(later)), 2),
            "median": {
                name: statistics.median(row[name] for row, _ in later if name in row)
                for name in {name: None for row, _ in later for name in row}
            },
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a folder, or tiny")
    parser.add_argument("--engine", default="vllm", choices=("vllm", "transformers"))
    parser.add_argument("--env", default="llm_gym/GuessTheNumberEasy-v0")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=4, help="of each stage")
    parser.add_argument("--rounds", type=int, default=2, help="of all stages, in turn")
    parser.add_argument("--turns", type=int, default=4, help="of an episode")
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--context", type=int, default=2048, help="tokens of a conversation")
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.3, help="of a GPU, for each actor")
    parser.add_argument("--cache-gb", type=int, default=8, help="of each engine")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    served = ["vllm"] if args.engine == "vllm" else []
    asked = ("env", "engine", "episodes", "iterations", "rounds", "actors", "share", "cache_gb")
    about = {
        "made_by": provenance(__file__, ("torch", "ray", "transformers", "torchrl", *served)),
        "settings": {name: getattr(args, name) for name in (*asked, "max_tokens", "turns")},
    }

    def keep(stages: dict[str, Any]) -> None:
        args.out.write_text(json.dumps(about | {"stages": stages}, indent=1) + "\n")

    measure(args, keep)


if __name__ == "__main__":
    main()
