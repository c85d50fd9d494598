"""AgileRL's LLM PPO on a CPU beside ours: the same tiny model, game and batch, one thread each.

    python benchmarks/peers/agilerl_train.py                   # makes .venv-agilerl
    python benchmarks/peers/agilerl_train.py --python PYTHON   # that has AgileRL 2.58 already

Three sides: AgileRL as it installs, AgileRL with ``HAS_LIGER_KERNEL`` set to False before its
algorithms are imported, and ours. Each trains for as many CPU seconds; success is that of the
batches as they were sampled. Writes ``benchmarks/results/agilerl_train.json``.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from lanes import Job, Results, run
from machine import provenance
from peers.venvs import python_with

HERE = Path(__file__).parent
RESULT = HERE.parent / "results" / "agilerl_train.json"
PACKAGES = (
    "torch==2.13.0", "agilerl==2.58.0", "transformers==5.14.1", "peft==0.21.0", "datasets==4.8.0"
)  # fmt: skip
ALONE = ("liger-kernel==0.8.2", "bitsandbytes==0.49.2", "openenv==0.4.1")
"""Asked for by name only; their own dependencies are not used on a CPU."""
SHOWN = 5
"""Batches whose success is averaged."""


def told(row: dict[str, Any]) -> dict[str, Any]:
    """Return what the table says of a side."""
    if "error" in row:
        reasons = re.findall(r"\w+Error: .*$", row["error"])
        return {"error": reasons[-1] if reasons else row["error"]}
    if row["side"] == "ours":
        last = row["curve"][-1]
        sampled, cpu_s, updates = row["sampled"], last["cpu_s"], last["updates"]
        parts: dict[str, Any] = {}
    else:
        curve = row["curve"]
        sampled = [each["success"] for each in curve]
        cpu_s, updates = curve[-1]["cpu_s"], curve[-1]["updates"]
        parts = {
            name: statistics.median(each[name] for each in curve) for name in ("play_s", "learn_s")
        }
    return parts | {
        "updates": updates,
        "cpu_s": cpu_s,
        "cpu_s_per_update": cpu_s / updates,
        "first": statistics.fmean(sampled[:SHOWN]),
        "last": statistics.fmean(sampled[-SHOWN:]),
        "sampled": sampled,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", help="that has AgileRL; made in .venv-agilerl unless given")
    parser.add_argument("--seconds", type=float, default=60.0, help="of CPU, for AgileRL")
    parser.add_argument("--updates", type=int, default=100, help="of ours")
    parser.add_argument("--sides", nargs="+", default=["stock", "patched", "ours"])
    parser.add_argument("--folder", type=Path, help="first weights, instead of making them")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    theirs = args.python or python_with("agilerl", PACKAGES, ("--no-deps", *ALONE))
    results = Results(args.out, provenance(__file__, ("torch", "transformers")))
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch) / "guess"
        if args.folder is None:
            sys.path.insert(0, str(HERE / "train"))
            from guess import start

            start(folder, 0)
        peer = [theirs, str(HERE / "train" / "agilerl_side.py"), str(folder)]
        peer += ["--updates", "1000", "--seconds", str(args.seconds)]
        own = [sys.executable, str(HERE / "train" / "our_side.py"), str(folder), "0"]
        own += ["4 passes, rate 2e-3"]
        own += ["--updates", str(args.updates), "--every", str(args.updates), "--episodes", "200"]
        commands = {"stock": peer, "patched": [*peer, "--patched"], "ours": own}
        for side in args.sides:
            row = told(run(Job(side, commands[side]), 1800))
            results.add(side, row)
            shown = {name: value for name, value in row.items() if name != "sampled"}
            print(side, json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
