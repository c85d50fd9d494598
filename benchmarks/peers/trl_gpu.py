"""SmolLM2-135M on one GPU beside TRL's ``GRPOTrainer``, both with vLLM on the same card.

The same warm-started weights, game and batch of 64 episodes on both sides; each trains for as many
seconds, one after the other, and reports the success of every batch.

    python benchmarks/peers/trl_gpu.py --model FOLDER                    # six minutes of a GPU
    python benchmarks/peers/trl_gpu.py --model FOLDER --sides trl --trl-backend transformers

Needs TRL 1.16 and vLLM beside this package. Each run is a process of its own with a limit; what it
had measured by then counts. Writes ``benchmarks/results/trl_gpu.json``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from curves.table import reached
from machine import provenance

HERE = Path(__file__).parent
RESULT = HERE.parent / "results" / "trl_gpu.json"
SIDE = HERE / "train" / "gpu_side.py"
STARTING = 180
"""Seconds that a side may take before its first batch."""
SMOOTH = 5
"""Batches whose success is averaged before it is compared: one has 64 episodes."""


def run(name: str, command: list[str], limit: float) -> str | None:
    """Run a side; return what went wrong, if anything did."""
    print(f"{name} ...", flush=True)
    try:
        done = subprocess.run(
            [sys.executable, str(SIDE), *command], capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {limit:.0f} s"
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr[-1500:]}"
    print(done.stdout[-400:], flush=True)
    return None


def smooth(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return rows with the success of the last few batches.

    >>> smooth([{"success": float(at)} for at in range(3)])
    [{'success': 0.0}, {'success': 0.5}, {'success': 1.0}]
    """
    found = []
    for at, row in enumerate(rows):
        last = rows[max(0, at + 1 - SMOOTH) : at + 1]
        found.append(row | {"success": statistics.fmean(each["success"] for each in last)})
    return found


def summary(sides: dict[str, Any]) -> dict[str, Any]:
    """Return seconds per update, and how much sooner we have the other's success."""
    told: dict[str, Any] = {}
    curves = {name: smooth(side["rows"]) for name, side in sides.items() if side["rows"]}
    for name, rows in curves.items():
        steps = [b["seconds"] - a["seconds"] for a, b in itertools.pairwise(rows[1:])]
        told[name] = {
            "updates": len(rows),
            "first": rows[0]["success"],
            "final": rows[-1]["success"],
            "peak": max(row["success"] for row in rows),
            "seconds": rows[-1]["seconds"],
            "s_per_update": statistics.median(steps) if steps else None,
        }
    if {"ours", "trl"} <= told.keys():
        goal = min(told["ours"]["final"], told["trl"]["final"])
        told["goal"] = goal
        for name in ("ours", "trl"):
            told[name]["seconds_to_goal"] = reached(curves[name], goal, "seconds")
        told["times_faster"] = _times(told, "seconds_to_goal")
        told["times_per_update"] = _times(told, "s_per_update")
    return told


def _times(told: dict[str, Any], what: str) -> float | None:
    ours, theirs = told["ours"][what], told["trl"][what]
    return None if not ours or theirs is None else theirs / ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a folder with SmolLM2-135M-Instruct")
    parser.add_argument("--seconds", type=float, default=90.0, help="of training, each")
    parser.add_argument("--sides", nargs="+", choices=("ours", "trl"), default=["ours", "trl"])
    parser.add_argument("--rate", type=float, default=2e-5, help="of both")
    parser.add_argument("--warm-steps", type=int, default=60)
    parser.add_argument("--memory", type=float, default=0.25, help="share of the card for vLLM")
    parser.add_argument("--backend", choices=("vllm", "transformers"), default="vllm")
    parser.add_argument("--trl-backend", choices=("vllm", "transformers"), help="if not the same")
    parser.add_argument("--started", type=Path, help="a warm-started folder, instead of making one")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    known = json.loads(args.out.read_text()) if args.out.exists() else {}
    made = provenance(__file__, ("torch", "transformers")) | {"args": vars(args), "sides": {}}
    made["sides"] |= known.get("sides", {})
    with tempfile.TemporaryDirectory() as scratch:
        begin = args.started or Path(scratch) / "start"
        if args.started is None:
            steps = ["--warm-steps", str(args.warm_steps)]
            if wrong := run("start", ["start", args.model, str(begin), *steps], STARTING):
                sys.exit(f"no start: {wrong}")
        for side in args.sides:
            backend = args.trl_backend if side == "trl" and args.trl_backend else args.backend
            rows = Path(scratch) / f"{side}.jsonl"
            command = [side, str(begin), str(rows), "--seconds", str(args.seconds)]
            command += ["--rate", str(args.rate), "--memory", str(args.memory)]
            wrong = run(side, [*command, "--backend", backend], args.seconds + STARTING)
            lines = rows.read_text().splitlines() if rows.exists() else []
            found = {"backend": backend, "error": wrong, "rows": [json.loads(x) for x in lines]}
            made["sides"][side] = found
            made["summary"] = summary(made["sides"])
            args.out.write_text(json.dumps(made, indent=1, default=str) + "\n")
    print(json.dumps(made["summary"], indent=1))
    for side, found in made["sides"].items():
        if found["error"]:
            print(f"{side}: {found['error']}")


if __name__ == "__main__":
    main()
