"""A real language model learns six games on one GPU: what it reaches, how fast, and what transfers.

Every recipe of ``llm_gym_agents.recipes.GAMES``, seed after seed: held-out success at the start,
after the warm start and after reinforcement learning, with 95 % intervals; seconds, tokens and the
share of each phase; memory. The model of ``TAUGHT`` learned in the form in which the suite is
asked: it then plays all of it; ``suite.json`` in the run's folder says what it can do elsewhere.

    python -m benchmarks.learn.real_model --model FOLDER --lanes 5 --minutes 11
    python -m benchmarks.learn.real_model --model FOLDER --games text-game-easy --seeds 0 --lanes 1
    python -m benchmarks.envs.leaderboard --add runs/real-model/smollm2-…/suite.json --name "taught"
    python -m benchmarks.lib.figures; python -m benchmarks.pages     # figures and tables again

Runs share the card in lanes. A lane is a process that starts vLLM once and takes run after run from
the queue, first one seed of every game. A run that fails, or hangs, is a row that says so, and its
lane begins anew. Each row is written to ``--out`` as it comes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.learn.tables import real_model_runs
from benchmarks.lib.machine import RESULTS, provenance
from llm_gym_agents.recipes import GAMES

RESULT = RESULTS / "real_model.json"
LANE = "benchmarks.learn.real_model_lane"
TAUGHT = ("guess-the-number", 0)
"""The run whose model plays the whole suite afterwards."""
GRACE_S = {False: 240, True: 600}
"""Seconds that a run may take besides reinforcement learning, without the suite and with it, before
its lane is given up."""
STAGES = ("start", "warm", "trained")
Job = dict[str, Any]


class Results:
    """What is known so far, in a file."""

    def __init__(self, place: Path, packages: tuple[str, ...]) -> None:
        self.place, self._lock = place, threading.Lock()
        self.found: dict[str, Any] = {}
        if place.exists():
            self.found = json.loads(place.read_text("utf-8"))
        self.found |= provenance(__file__, packages)
        self.found.setdefault("runs", [])

    def add(self, row: dict[str, Any]) -> None:
        with self._lock:
            self.found["runs"].append(row)
            self.place.parent.mkdir(parents=True, exist_ok=True)
            self.place.write_text(json.dumps(self.found, indent=1) + "\n", "utf-8")
            stages = {each: row[each]["success"] for each in STAGES if each in row}
            print(row["game"], row["seed"], row.get("error") or stages, flush=True)

    def knows(self, game: str, seed: int) -> bool:
        rows = (row for row in self.found["runs"] if "error" not in row)
        return any((row["game"], row["seed"]) == (game, seed) for row in rows)


class Lane(threading.Thread):
    """Takes jobs from a queue, and gives each to one process that lives as long as it is well."""

    def __init__(self, number: int, jobs: queue.Queue[Job], results: Results, args: Any) -> None:
        super().__init__()
        self.number, self.jobs, self.results, self.args = number, jobs, results, args
        self._process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        """Work until the queue is empty or the time is up."""
        while (left := self.args.until - monotonic()) > self.args.least:
            try:
                job = self.jobs.get_nowait()
            except queue.Empty:
                break
            self.results.add(self._done(job, left))
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _done(self, job: Job, left: float) -> dict[str, Any]:
        if self._process is None:
            self._process = self._start()
        process = self._process
        seconds = min(self.args.rl_seconds, max(10.0, left - 60))
        job = job | {"seconds": seconds, "left": left}
        limit = min(left, job["seconds"] + GRACE_S[job["suite"]])
        watch = threading.Timer(limit, process.kill)
        watch.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            row = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            where = f"lane-{self.number}.log"
            row = {"error": f"gave no result within {limit:.0f} s, or ended; see {where}"}
        finally:
            watch.cancel()
        if "error" in row:  # its engine may be gone with it
            self._end()
        return job | row

    def _start(self) -> subprocess.Popen[str]:
        args = self.args
        args.work.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", LANE, "--model", args.model, "--backend", args.backend]
        command += ["--work", str(args.work), "--episodes", str(args.episodes)]
        command += ["--cache-gb", str(args.cache_gb), "--run-seconds", str(args.run_seconds)]
        command += ["--tiny"] if args.tiny else []
        # Lanes start at the same moment, and would compile into the same folder.
        own = {"VLLM_CACHE_ROOT": str((args.work / f"vllm-{self.number}").resolve())}
        with (args.work / f"lane-{self.number}.log").open("a") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | own,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", help="the folder of SmolLM2-135M-Instruct")
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--lanes", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60.0, help="no longer than this in all")
    parser.add_argument("--least", type=float, default=30.0, help="seconds that a run must have")
    parser.add_argument("--rl-seconds", type=float, default=150.0)
    parser.add_argument(
        "--run-seconds", type=float, default=180.0, help="of all of a run, without vLLM's start"
    )
    parser.add_argument("--episodes", type=int, default=200, help="held out, each time")
    parser.add_argument("--backend", default="vllm")
    parser.add_argument("--cache-gb", type=int, default=4, help="of each lane's engine")
    parser.add_argument("--tiny", action="store_true", help="everything small, to try it out")
    parser.add_argument("--work", type=Path, default=Path("runs/real-model"))
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    if not args.model:
        parser.error("name the folder of the model with --model")
    args.until = monotonic() + 60 * args.minutes
    served = () if args.backend == "transformers" else (args.backend,)
    results = Results(args.out, ("torch", "transformers", "torchrl", *served))
    jobs: queue.Queue[Job] = queue.Queue()
    for seed, game in itertools.product(args.seeds, args.games):  # one seed of every game first
        if not results.knows(game, seed):
            jobs.put({"game": game, "seed": seed, "suite": (game, seed) == TAUGHT})
    lanes = [Lane(number, jobs, results, args) for number in range(args.lanes)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    print(real_model_runs(results.found))


if __name__ == "__main__":
    main()
