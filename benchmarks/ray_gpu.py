"""Two players and a learner on one card under Ray, beside one process that does both in turn.

*in_process* plays and learns in turn, with one engine that sleeps while the learner learns. *sync*
plays on Ray actors that wait for fresh weights (``ray.staleness=0``), *staleness_1* on actors that
play the next batch while the learner learns. All three play the same named episodes. Each runs in a
process of its own, so one that fails leaves the others alone; what it said is in the result.

    python benchmarks/ray_gpu.py --model FOLDER
    python benchmarks/ray_gpu.py --engine transformers --model tiny --episodes 8 --iterations 3

Writes ``benchmarks/results/ray_gpu.json`` (``--out`` for another place) after each part. Figures
are medians over the iterations after the first; ``ids`` says whether every episode came once, in
order.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from machine import provenance

RESULT = Path(__file__).parent / "results" / "ray_gpu.json"
PARTS: dict[str, dict[str, Any]] = {
    "in_process": {},
    "sync": {"use_ray": True, "staleness": 0},
    "staleness_1": {"use_ray": True, "staleness": 1},
}
SHOWN = (
    "time/collect_s",
    "time/update_s",
    "time/publish_s",
    "time/tokens_per_s",
    "time/actor_tokens_per_s",
    "time/actor_idle",
    "ray/staleness_mean",
    "ray/staleness_max",
    "ray/restarts",
    "engine/probe_gap",
    "engine/weights_checked",
    "mismatch/kl",
    "mismatch/ess",
    "episode/tokens",
    "episode/success",
)


def config_of(arguments: argparse.Namespace, folder: str) -> Any:
    from llm_gym_agents import ConfigStore

    config = ConfigStore()
    if arguments.model == "tiny":
        config.model.model_name = "tiny"
    else:
        config.model.local_path = arguments.model
    config.inference.backend = arguments.engine
    if arguments.engine == "vllm":
        config.inference.engine = {"max_model_len": 2048}
    config.inference.max_tokens, config.inference.max_turns = 32, 4
    config.inference.num_envs = arguments.episodes
    config.training.num_epochs, config.training.num_iters_per_epoch = 1, arguments.iterations
    config.training.batch_size = arguments.episodes
    config.training.mini_batch_size = max(arguments.episodes // 4, 1)
    config.training.learning_rate = 1e-5
    config.environment.env_id = arguments.env
    config.environment.eval_interval = 0
    config.checkpoint.output_dir, config.checkpoint.save_interval = folder, 0
    config.checkpoint.record_every = 0
    for name, value in PARTS[arguments.part].items():
        setattr(config.ray, name, value)
    if config.ray.use_ray:
        config.ray.num_actors, config.ray.num_gpus_per_actor = arguments.actors, arguments.share
    return config


def run_part(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train for some iterations; return what they took."""
    from llm_gym_agents import PPOTrainer

    start = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trainer = PPOTrainer(config_of(arguments, f"{folder}/run"))
        trainer.on_advice = lambda sentence: None
        ids: list[Any] = []
        moments: list[float] = []
        play = trainer.sampler.play

        def counted(*args: Any, **how: Any) -> Any:
            rollout = play(*args, **how)
            ids.extend(episode.episode_id for episode in rollout.all_episodes)
            return rollout

        trainer.sampler.play = counted
        trainer.callbacks.append(lambda *_: moments.append(perf_counter()))
        began = perf_counter()
        try:
            rows = trainer.fit()
        finally:
            trainer.cleanup()
    steps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    tokens = [row["episode/tokens"] * arguments.episodes for row in rows]
    whole = moments[-1] - moments[0]
    return {
        "start_s": round(began - start, 2),
        "iteration_s": round(statistics.median(steps), 3),
        "tokens_per_s": round(sum(tokens[1:]) / whole, 1),
        "episodes_per_s": round(arguments.episodes * len(steps) / whole, 2),
        "episodes": len(ids),
        "ids": ids == list(range(arguments.episodes * arguments.iterations)),
        "median": {
            name: statistics.median(row[name] for row in rows[1:])
            for name in SHOWN
            if name in rows[-1]
        },
        "iterations": [{name: row[name] for name in SHOWN if name in row} for row in rows],
    }


def in_turn(arguments: argparse.Namespace) -> None:
    """Run every part in a process of its own, and write what came of it after each."""
    told = ("env", "engine", "episodes", "iterations", "actors", "share")
    result: dict[str, Any] = {
        "made_by": provenance(__file__, ("torch", "ray", "transformers", "torchrl")),
        "settings": {name: getattr(arguments, name) for name in told},
        "parts": {},
    }
    for part in arguments.parts:
        with tempfile.TemporaryDirectory() as folder:
            place, log = Path(folder) / "part.json", Path(folder) / "log"
            command = [sys.executable, "-W", "ignore", __file__, *sys.argv[1:]]
            command += ["--part", part, "--out", str(place)]
            end = ""
            # Into a file: whoever reads a pipe waits for the last of Ray's processes to close it.
            with log.open("w") as file:
                try:
                    limit = arguments.timeout
                    subprocess.run(command, timeout=limit, stdout=file, stderr=subprocess.STDOUT)
                except subprocess.TimeoutExpired:
                    end = f"took more than {arguments.timeout:g} s: "
            said = end + log.read_text()[-2000:]
            found = json.loads(place.read_text()) if place.exists() else {"failed": said}
        result["parts"][part] = found
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
        shown = {key: value for key, value in found.items() if key != "iterations"}
        print(part, json.dumps(shown), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a folder, or tiny")
    parser.add_argument("--engine", default="vllm", choices=("vllm", "transformers"))
    parser.add_argument("--env", default="llm_gym/GuessTheNumberEasy-v0")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.3, help="of a GPU, for each actor")
    parser.add_argument("--timeout", type=float, default=150.0, help="seconds of each part")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    if arguments.part is None:
        in_turn(arguments)
    else:
        arguments.out.write_text(json.dumps(run_part(arguments)))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "4")
    main()
