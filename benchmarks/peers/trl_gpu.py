"""SmolLM2-135M on one GPU beside TRL's ``GRPOTrainer``, both with vLLM on the same card.

The same warm-started weights, game and batch of 64 episodes on both sides, and as many settings are
tried on each. All engines start at the same time; then one run after another has the card to itself
and reports the success of every batch. A run that is slower to learn is given more time.

    python -m benchmarks.peers.trl_gpu --model FOLDER                    # seven minutes of a GPU
    python -m benchmarks.peers.trl_gpu --model FOLDER --sides ours --rates 5e-5 --seeds 0 1

Needs TRL 1.16 and vLLM beside this package. Each run is a process of its own with a limit; what it
has measured is written every few seconds, and counts whatever happens then; one that ends before
its turn is started once more. Writes ``benchmarks/results/trl_gpu.json``, of which
``lib/figures.py`` draws the figure.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from benchmarks.lib.curves import reached, smooth
from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.peers.episodes import ready_of

RESULT = RESULTS / "trl_gpu.json"
SIDE = ("-m", "benchmarks.peers.gpu_side")
STARTING = 200.0
"""Seconds that engines may take to start, unless told otherwise."""
LATE = 40.0
"""Seconds that a run may go on after its time, to end its update."""
NOTE_EVERY = 3.0
"""Seconds between two looks at what a run has measured."""
STARTS = 2
"""Times that a run is started, if it ends before its turn."""
TOLD = "told to stop"
"""What is wrong with a run that was cut from outside; what it had measured counts."""


class Run:
    """A process that starts its engine, waits for its turn, and notes what it measures."""

    def __init__(
        self, side: str, rate: float, seed: int, *, begin: Path, place: Path, args: Any
    ) -> None:
        self.side, self.rate, self.seed = side, rate, seed
        self.name = run_name(side, rate, seed)
        self.backend = args.backend
        self.seconds = args.seconds if side == "ours" else args.trl_seconds
        self.rows, self.turn = place / f"{self.name}.jsonl", place / f"{self.name}.turn"
        self.log = place / f"{self.name}.log"
        self._command = [sys.executable, *SIDE, side, args.model, str(self.rows)]
        self._command += ["--start", str(begin), "--turn", str(self.turn), "--rate", str(rate)]
        self._command += ["--seconds", str(self.seconds), "--backend", self.backend]
        self._command += ["--cache-gb", str(args.cache_gb), "--seed", str(seed)]
        # Engines that start at the same moment would compile into the same folder.
        self._cache = {"VLLM_CACHE_ROOT": str(place / f"vllm-{self.name}".replace(" ", ""))}
        self.starts = 0
        self.start()

    def start(self) -> None:
        """Start the process; it waits when it is ready."""
        self.starts += 1
        own = self._cache | {"MASTER_PORT": str(free_port())}  # or they would meet at one
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | own
            )

    def is_ready(self) -> bool:
        """Whether it waits for its turn, or has ended before that twice."""
        if ready_of(self.turn).exists():
            return True
        if self.process.poll() is not None and self.starts < STARTS:
            self.start()
        return self.process.poll() is not None

    def result(self, note: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Give it its turn, and return what it measured; ``note`` is told meanwhile."""
        print(f"{self.name} ...", flush=True)
        self.turn.touch()
        deadline, wrong, code = monotonic() + self.seconds + LATE, None, None
        try:
            while code is None and monotonic() < deadline:
                with suppress(subprocess.TimeoutExpired):
                    code = self.process.wait(NOTE_EVERY)
                note(self.made(TOLD if code is None else None))
        except SystemExit:
            wrong = TOLD
        if code:
            wrong = f"exit code {code}: {self.log.read_text()[-1500:]}"
        elif code is None and wrong is None:
            wrong = f"stopped {LATE:.0f} s after its time: {self.log.read_text()[-1500:]}"
        self.process.kill()
        self.process.wait()
        return self.made(wrong)

    def made(self, wrong: str | None) -> dict[str, Any]:
        """Return what it has measured so far, and what is wrong with it."""
        lines = self.rows.read_text().split("\n")[:-1] if self.rows.exists() else []
        about = {"side": self.side, "rate": self.rate, "seed": self.seed, "backend": self.backend}
        return about | {"error": wrong, "rows": [json.loads(line) for line in lines]}


def run_name(side: str, rate: float, seed: int) -> str:
    """Return what a run is called.

    >>> run_name("trl", 5e-5, 1)
    'trl, rate 5e-5, seed 1'
    """
    return f"{side}, rate {rate:.0e}, seed {seed}".replace("e-0", "e-")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port: int = found.getsockname()[1]
        return port


def all_ready(runs: list[Run], warm: subprocess.Popen[bytes], limit: float) -> bool:
    """Wait until every run is; return whether the warm start is there."""
    deadline = monotonic() + limit
    while monotonic() < deadline:
        ready = [run.is_ready() for run in runs]  # asks all: one that ended is started again
        if all(ready) and warm.poll() is not None:
            break
        sleep(0.2)
    return warm.poll() == 0


def write(path: Path, made: dict[str, Any]) -> None:
    """Write a result; the file is whole at any moment."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(made, indent=1, default=str) + "\n")
    part.replace(path)


def measured(args: argparse.Namespace, made: dict[str, Any]) -> None:
    """Do every run, and write what is known after each."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        begin = place / "start"
        command = [sys.executable, *SIDE, "start", args.model, str(begin)]
        warm = subprocess.Popen([*command, "--warm-steps", str(args.warm_steps)])
        runs: list[Run] = []
        try:
            for side, rate, seed in itertools.product(args.sides, args.rates, args.seeds):
                runs.append(Run(side, rate, seed, begin=begin, place=place, args=args))
            if not all_ready(runs, warm, args.starting):
                sys.exit("no start: see above")
            for run in runs:

                def note(found: dict[str, Any], name: str = run.name) -> None:
                    made["sides"][name] = found
                    made["summary"] = summary(made["sides"])
                    write(args.out, made)

                note(run.result(note))
                if made["sides"][run.name]["error"] == TOLD:
                    break
        finally:
            for each in [*(run.process for run in runs), warm]:
                each.kill()
                each.wait()


def summary(sides: dict[str, Any]) -> dict[str, Any]:
    """Return what each run came to, and how much sooner our best has TRL's success than its best.

    The best setting of a side is the one whose seeds end highest, in the mean; a setting is told by
    the means of its seeds.
    """
    runs = {name: each["rows"] for name, each in sides.items() if each["rows"]}
    told: dict[str, Any] = {"runs": {name: _run(rows) for name, rows in runs.items()}, "best": {}}
    settings: dict[str, list[str]] = defaultdict(list)
    for name in runs:
        settings[_setting(name)].append(name)
    means = {
        setting: {
            what: statistics.fmean(told["runs"][name][what] for name in names)
            for what in ("final", "s_per_update")
        }
        for setting, names in settings.items()
        if all(told["runs"][name]["s_per_update"] is not None for name in names)
    }
    for side in ("ours", "trl"):
        own = [setting for setting in means if setting.startswith(side)]
        if own:
            told["best"][side] = max(own, key=lambda setting: means[setting]["final"])
    if len(told["best"]) < 2:
        return told
    best = {side: means[setting] for side, setting in told["best"].items()}
    goal = told["goal"] = min(each["final"] for each in best.values())
    for row, rows in zip(told["runs"].values(), runs.values(), strict=True):
        row["seconds_to_goal"] = reached(smoothed(rows), goal, "seconds")
        row["episodes_to_goal"] = reached(smoothed(rows), goal, "episodes")
    ways = {
        side: [told["runs"][name]["seconds_to_goal"] for name in settings[setting]]
        for side, setting in told["best"].items()
    }
    # A seed of TRL's that ends below the mean of all never gets there: its whole run counts.
    whole = [told["runs"][name]["seconds"] for name in settings[told["best"]["trl"]]]
    theirs = [end if way is None else way for way, end in zip(ways["trl"], whole, strict=True)]
    if None not in ways["ours"]:
        told["times_faster"] = statistics.fmean(theirs) / statistics.fmean(ways["ours"])
    told["times_per_update"] = best["trl"]["s_per_update"] / best["ours"]["s_per_update"]
    return told


def smoothed(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return rows with the success of the last few batches: one has 64 episodes."""
    means = smooth([row["success"] for row in rows])
    return [row | {"success": mean} for row, mean in zip(rows, means, strict=True)]


def _setting(name: str) -> str:
    return name.partition(", seed")[0]


def _run(rows: list[dict[str, float]]) -> dict[str, Any]:
    steps = [b["seconds"] - a["seconds"] for a, b in itertools.pairwise(rows[1:])]
    even = smoothed(rows)
    return {
        "updates": len(rows),
        "first": even[0]["success"],
        "final": even[-1]["success"],
        "peak": max(row["success"] for row in even),
        "seconds": even[-1]["seconds"],
        "s_per_update": statistics.median(steps) if steps else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a folder with SmolLM2-135M-Instruct")
    parser.add_argument("--seconds", type=float, default=60.0, help="of our training, each")
    parser.add_argument("--trl-seconds", type=float, default=100.0, help="of TRL's")
    parser.add_argument("--sides", nargs="+", choices=("ours", "trl"), default=["ours", "trl"])
    parser.add_argument("--rates", type=float, nargs="+", default=[2e-5, 5e-5], help="of both")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of each")
    parser.add_argument("--warm-steps", type=int, default=60)
    parser.add_argument("--cache-gb", type=int, default=8, help="of each vLLM")
    parser.add_argument("--starting", type=float, default=STARTING, help="most seconds of it")
    parser.add_argument("--backend", choices=("vllm", "transformers"), default="vllm")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TOLD))  # which ends the runs, too
    known = json.loads(args.out.read_text()) if args.out.exists() else {}
    made = provenance(__file__, ("torch", "transformers")) | {"args": vars(args), "sides": {}}
    made["sides"] |= known.get("sides", {})
    measured(args, made)
    print(json.dumps(made["summary"], indent=1))
    for side, found in made["sides"].items():
        if found["error"]:
            print(f"{side}: {found['error']}")


if __name__ == "__main__":
    main()
