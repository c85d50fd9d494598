"""Two players and a learner on one GPU under Ray, compared with one process that does both.

*in_process* plays and learns in turn, with one engine. *sync* plays on Ray actors that wait for new
weights (``ray.staleness=0``). *staleness_1* uses the same actors, which play the next batch during
the update; ``--rounds`` repeats the two. With and without Ray are separate processes that measure
in turn. The learning rate is small, so that episodes stay equally long.

    python -m benchmarks.scale.ray_gpu --model FOLDER
    python -m benchmarks.scale.ray_gpu --engine transformers --model tiny --episodes 8 --share 0

Writes ``benchmarks/results/ray_gpu.json`` (or ``--out``) and ``.log`` files beside it. Engines
start before the clock (``start_s``). Figures leave out the first and the last iteration of a stage,
which play nothing ahead; ``ids`` says whether every episode came once, in order.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from benchmarks.lib.lanes import turn
from benchmarks.lib.machine import RESULTS, provenance

RESULT = RESULTS / "ray_gpu.json"
STAGES = {"in_process": {"in_process": 0}, "ray": {"sync": 0, "staleness_1": 1}}
"""Of each process: its stages, and how far playing runs ahead in each."""
Step = tuple[dict[str, float], float | None]
"""Metrics of an iteration, and its seconds; None for those that are left out."""
SHOWN = ("time/", "ray/", "engine/", "mismatch/", "episode/")
"""Groups of metrics that are kept."""


def config_of(arguments: argparse.Namespace, folder: str) -> Any:
    from benchmarks.lib.counted import served_config

    config = served_config(arguments, folder)
    config.model.model_name = arguments.model
    if arguments.eager and arguments.engine == "vllm":
        config.inference.engine["eager"] = True
    if arguments.part == "ray":
        config.ray.use_ray, config.ray.num_actors = True, arguments.actors
        config.ray.num_gpus_per_actor = arguments.share
    return config


def run_part(arguments: argparse.Namespace) -> None:
    """Train through the stages of a process; what they came to is written after each iteration."""
    from benchmarks.lib.counted import CountedRun

    began = perf_counter()

    def say(what: str) -> None:
        print(f"[{arguments.part} {perf_counter() - began:6.1f} s] {what}", flush=True)

    say("starting")
    with tempfile.TemporaryDirectory() as folder:
        with turn(alone=False):
            run = CountedRun(config_of(arguments, f"{folder}/run"))
        run.trainer.checkpoints.save = lambda *_, **__: None  # type: ignore[method-assign]
        say(f"engines are there after {run.start_s:.1f} s")
        found: dict[str, Any] = {}
        seen: dict[str, list[Step]] = {stage: [] for stage in STAGES[arguments.part]}
        with contextlib.ExitStack() as ends, turn(alone=True):
            ends.callback(run.trainer.cleanup)
            order = list(STAGES[arguments.part].items()) * arguments.rounds
            for first, (stage, staleness) in enumerate(order):
                run.trainer.config.ray.staleness = staleness
                begun = first * arguments.iterations

                def keep(_: Any, row: dict[str, float], stage=stage, begun=begun) -> None:
                    moments = run.moments[begun:]
                    counts = 1 < len(moments) < arguments.iterations
                    took = moments[-1] - moments[-2] if counts else None
                    seen[stage].append((row, took))
                    ids = run.ids == list(range(arguments.episodes * len(run.moments)))
                    found[stage] = {"start_s": round(run.start_s, 2), "ids": ids}
                    found[stage] |= figures(seen[stage], arguments.episodes)
                    arguments.out.write_text(json.dumps(found))
                    say(f"{stage}: iteration {len(moments)} of {arguments.iterations}")

                run.trainer.callbacks.append(keep)
                run.trainer.fit(num_iters_per_epoch=begun + arguments.iterations)
                run.trainer.callbacks.pop()
    say("done")


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


def in_turn(arguments: argparse.Namespace) -> None:
    """Run every part in a process of its own, and write what came of it after each."""
    told = ("env", "engine", "episodes", "iterations", "rounds", "actors", "share", "cache_gb")
    told += ("max_tokens", "turns")
    served = ["vllm"] if arguments.engine == "vllm" else []
    result: dict[str, Any] = {
        "made_by": provenance(__file__, ("torch", "ray", "transformers", "torchrl", *served)),
        "settings": {name: getattr(arguments, name) for name in told},
        "stages": {},
    }
    children = {part: Child(part, arguments.out) for part in arguments.parts}
    end = perf_counter() + arguments.timeout
    while children:
        sleep(2.0)
        for part, child in list(children.items()):
            ended = child.ended(late=perf_counter() > end)
            result["stages"] |= child.found()
            for stage in STAGES[part] if ended else ():
                result["stages"].setdefault(stage, {})["ended"] = ended
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")
            if ended is None:
                continue
            del children[part]
            for stage in STAGES[part]:
                shown = result["stages"].get(stage, {})
                print(stage, json.dumps({k: v for k, v in shown.items() if k != "iterations"}))
            sys.stdout.flush()


class Child:
    """A process that runs one part of the measurement."""

    def __init__(self, part: str, out: Path) -> None:
        self._log, self._place = out.with_suffix(f".{part}.log"), out.with_suffix(f".{part}.json")
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale.ray_gpu", *sys.argv[1:]]
        command += ["--part", part, "--out", str(self._place)]
        # Into a file: whoever reads a pipe waits for the last of Ray's processes to close it.
        with self._log.open("w") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    def found(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._place.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}  # nothing yet, or just being written
        return found

    def ended(self, *, late: bool) -> str | None:
        """Return how the process failed, "" for success; None while it runs, unless ``late``."""
        code = self._process.poll()
        if code is None and not late:
            return None
        self._process.kill()
        self._process.wait()
        lines = self._log.read_text(errors="replace").splitlines()
        last = " / ".join([line.strip() for line in lines if line.strip()][-3:])[-600:]
        how = "too late" if code is None else f"exit code {code}"
        return f"{how}: {last}" if code != 0 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a folder, or tiny")
    parser.add_argument("--engine", default="vllm", choices=("vllm", "transformers"))
    parser.add_argument("--env", default="llm_gym/GuessTheNumberEasy-v0")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=5, help="of each stage")
    parser.add_argument("--rounds", type=int, default=1, help="of all stages, in turn")
    parser.add_argument("--turns", type=int, default=4, help="of an episode")
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--context", type=int, default=2048, help="tokens of a conversation")
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.3, help="of a GPU, for each actor")
    parser.add_argument("--cache-gb", type=int, default=8, help="of each engine")
    parser.add_argument("--eager", action="store_true", help="engines that start sooner")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds of all")
    parser.add_argument("--parts", nargs="+", default=list(STAGES), choices=list(STAGES))
    parser.add_argument("--part", choices=list(STAGES), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    if arguments.part is None:
        in_turn(arguments)
    else:
        run_part(arguments)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "4")
    main()
