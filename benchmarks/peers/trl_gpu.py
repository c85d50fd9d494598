"""SmolLM2-135M on one GPU beside TRL's ``GRPOTrainer``, both with vLLM on the same card.

The same warm-started weights, game and batch of 64 episodes on both sides, and as many settings are
tried on each. One run after another has the card to itself and reports the success of every batch.
A run that is slower to learn is given more time.

    python -m benchmarks.peers.trl_gpu --model FOLDER
    python -m benchmarks.peers.trl_gpu --model FOLDER --sides ours --rates 5e-5 --seeds 0 1

Needs TRL 1.16 and vLLM beside this package. Each run is a process of its own with a limit; what it
has measured by then counts. Writes ``benchmarks/results/trl_gpu.json``, of which
``lib/figures.py`` draws the figure.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.lib.curves import reached, smooth
from benchmarks.lib.machine import RESULTS, provenance

RESULT = RESULTS / "trl_gpu.json"
SIDE = [sys.executable, "-m", "benchmarks.peers.gpu_side"]
STARTING, LATE = 200.0, 40.0
"""Seconds that an engine may take to start, and a run may go on after its time."""


def measure(side: str, rate: float, seed: int, model: Path, args: argparse.Namespace) -> Any:
    """Train one side in a process of its own; return what it measured, and what went wrong."""
    seconds = args.seconds if side == "ours" else args.trl_seconds
    error = None
    with tempfile.TemporaryDirectory() as place:
        rows, log = Path(place, "rows.jsonl"), Path(place, "log")
        command = [*SIDE, side, str(model), str(rows), "--rate", str(rate), "--seed", str(seed)]
        command += ["--seconds", str(seconds), "--backend", args.backend]
        command += ["--cache-gb", str(args.cache_gb)]
        limit = STARTING + seconds + LATE
        with log.open("w") as file:
            try:
                subprocess.run(command, stdout=file, stderr=file, check=True, timeout=limit)
            except subprocess.CalledProcessError as ended:
                error = f"exit code {ended.returncode}: {log.read_text()[-1500:]}"
            except subprocess.TimeoutExpired:
                error = f"stopped after {limit:.0f} s: {log.read_text()[-1500:]}"
        lines = rows.read_text().split("\n")[:-1] if rows.exists() else []
    about = {"side": side, "rate": rate, "seed": seed, "backend": args.backend}
    return about | {"error": error, "rows": [json.loads(line) for line in lines]}


def run_name(side: str, rate: float, seed: int) -> str:
    """Return what a run is called.

    >>> run_name("trl", 5e-5, 1)
    'trl, rate 5e-5, seed 1'
    """
    return f"{side}, rate {rate:.0e}, seed {seed}".replace("e-0", "e-")


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
    parser.add_argument("--backend", choices=("vllm", "transformers"), default="vllm")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    known = json.loads(args.out.read_text()) if args.out.exists() else {}
    made = provenance(__file__, ("torch", "transformers")) | {"args": vars(args), "sides": {}}
    made["sides"] |= known.get("sides", {})
    with tempfile.TemporaryDirectory() as scratch:
        begin = Path(scratch, "start")
        warm = ["start", args.model, str(begin), "--warm-steps", str(args.warm_steps)]
        subprocess.run([*SIDE, *warm], check=True)
        for side, rate, seed in itertools.product(args.sides, args.rates, args.seeds):
            name = run_name(side, rate, seed)
            print(f"{name} ...", flush=True)
            made["sides"][name] = measure(side, rate, seed, begin, args)
            made["summary"] = summary(made["sides"])
            args.out.write_text(json.dumps(made, indent=1, default=str) + "\n")
    print(json.dumps(made["summary"], indent=1))
    for side, found in made["sides"].items():
        if found["error"]:
            print(f"{side}: {found['error']}")


if __name__ == "__main__":
    main()
