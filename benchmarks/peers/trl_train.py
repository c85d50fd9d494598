"""Training beside TRL's ``GRPOTrainer``: the same tiny model, game and batch, one thread each.

First each side tries six settings on a seed that is not reported (sweeps on other seeds that the
file has count as well); then two of each play three others: TRL's best two, our best and ours with
GRPO. The best is the one with the highest mean success over its run, which counts how soon it
learns as well as where it ends. CPU seconds leave out evaluations; success is on held-out episodes.

    python -m benchmarks.peers.trl_train --lanes 8              # makes .venv-trl, then everything
    python -m benchmarks.peers.trl_train --python python3       # TRL is there already
    python -m benchmarks.peers.trl_train --scale 0.05           # try it out

Rows go to ``benchmarks/results/trl_train.json`` as they come.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.lib.curves import reached
from benchmarks.lib.lanes import Forks, Job, Results, run, work
from benchmarks.lib.machine import RESULTS, ROOT, provenance
from benchmarks.lib.workers import python_with

RESULT = RESULTS / "trl_train.json"
PACKAGES = ("torch==2.13.0", "datasets==4.8.0", "transformers==5.19.0", "trl==1.16.0")
OURS = (
    "4 passes, rate 2e-3", "4 passes, rate 3e-3", "4 passes, rate 2e-3, entropy 0.03",
    "4 passes, rate 3e-3, entropy 0.03", "2 passes, rate 3e-3", "grpo, 4 passes, rate 2e-3",
)  # fmt: skip
TRL = (
    "4 passes, rate 1e-3", "rate 1e-3", "rate 2e-3", "4 steps, rate 1e-3", "4 steps, rate 2e-3",
    "8 steps, rate 1e-3",
)  # fmt: skip
UPDATES = {"ours": 120, "trl": 500}
SWEEP = {"ours": 75, "trl": 250}
"""Updates of a run: what is enough for ours, and two to three times as many CPU seconds for TRL,
which begins to climb late."""
POINTS = {"sweep": 10, "final": 12}
"""Measurements of a run."""
SLOW = ("4 passes, rate 1e-3",)
"""Settings of TRL whose updates cost twice as much: they get half as many."""
SWEEP_SEED = 3
Row = dict[str, Any]


class Plan:
    """Which runs there are, and which settings won the sweep."""

    def __init__(self, args: argparse.Namespace, weights: Path) -> None:
        self.args, self.weights = args, weights
        self.python = args.python or python_with(
            "trl", PACKAGES, ("--editable", f"{ROOT}[train]", *PACKAGES)
        )

    def starts(self, seeds: list[int]) -> list[Job]:
        """Return the jobs that make first weights."""
        return [Job(f"start/{seed}", ["start", str(self.place(seed)), str(seed)]) for seed in seeds]

    def place(self, seed: int) -> Path:
        return self.weights / f"guess-{seed}"

    def job(self, stage: str, side: str, setting: str, seed: int, updates: int) -> Job:
        """Return one training run."""
        updates = updates // 2 if side == "trl" and setting in SLOW else updates
        updates = max(10, round(updates * self.args.scale))
        every = max(5, updates // POINTS[stage])
        updates -= updates % every
        trl = [self.python, "-m", "benchmarks.peers.trl_side"]  # it has packages of its own
        command = [*(trl if side == "trl" else ["learn"])]
        command += [str(self.place(seed)), str(seed), setting]
        command += ["--updates", str(updates), "--every", str(every)]
        command += ["--episodes", str(self.args.episodes)]
        return Job(f"{stage}/{side}/{setting}/{seed}", command, timeout=1200)

    def sweep(self) -> list[Job]:
        """Return the runs that settings are chosen by; the slow side first."""
        return [
            self.job("sweep", side, setting, SWEEP_SEED, SWEEP[side])
            for side, settings in (("trl", TRL), ("ours", OURS))
            for setting in settings
        ]

    def finals(self, rows: Mapping[str, Row]) -> list[Job]:
        """Return the runs of the winners; the slow side first."""
        first = best(rows, "trl", TRL)
        wanted = [("trl", first), ("ours", best(rows, "ours", OURS))]
        wanted += [("ours", best(rows, "ours", [name for name in OURS if "grpo" in name]))]
        wanted += [("trl", best(rows, "trl", [name for name in TRL if name != first]))]
        return [
            self.job("final", side, setting, seed, UPDATES[side])
            for side, setting in dict.fromkeys(wanted)
            for seed in self.args.seeds
        ]


def runner() -> Callable[[Job, float], Row]:
    """Return what runs a job: TRL's as a process, ours as a fork."""
    forks = Forks("benchmarks.peers.guess")
    return lambda job, timeout: (run if "-m" in job.command else forks)(job, timeout)


def best(rows: Mapping[str, Row], side: str, settings: Any) -> str:
    """Return the setting with the highest mean success over its sweeps; each seed counts alike."""

    def score(setting: str) -> float:
        sweeps = [
            [point["success"] for point in row["curve"][1:]]
            for key, row in rows.items()
            if key.startswith(f"sweep/{side}/{setting}/") and "curve" in row
        ]
        return _mean([sum(each) / len(each) for each in sweeps]) if sweeps else -1.0

    return max(settings, key=score)


def summary(rows: Mapping[str, Row]) -> dict[str, Any]:
    """Return what the table says: by side and setting, and how many times faster we got there."""
    found: dict[str, Any] = {}
    for key, row in rows.items():
        if key.startswith("final/") and "curve" in row:
            found.setdefault(f"{row['side']}, {row['setting']}", []).append(row["curve"])
    told = {name: _told(curves) for name, curves in found.items()}
    peers = [name for name in told if name.startswith("trl")]
    if not peers:
        return told
    peer = max(peers, key=lambda name: told[name]["final"])
    goal = told[peer]["final"]
    theirs = _way(found[peer], goal)
    for name, curves in found.items():
        told[name]["cpu_s_to_trl_final"] = ours = _way(curves, goal)
        told[name]["times_faster"] = None if None in (ours, theirs) else theirs / ours
    return told


def _told(curves: list[list[Row]]) -> dict[str, Any]:
    ends = [curve[-1] for curve in curves]
    finals = [end["success"] for end in ends]
    return {
        "seeds": len(curves),
        "start": _mean([curve[0]["success"] for curve in curves]),
        "final": _mean(finals),
        "lowest": min(finals),
        "highest": max(finals),
        "episodes": _mean([end["episodes"] for end in ends]),
        "cpu_s": _mean([end["cpu_s"] for end in ends]),
        "cpu_s_per_update": _mean([end["cpu_s"] / end["updates"] for end in ends]),
    }


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 4)


def _way(curves: list[list[Row]], goal: float) -> float | None:
    """Return the CPU seconds to ``goal`` of the mean curve: single ones go up and down."""
    length = min(map(len, curves))
    mean = [
        {what: _mean([curve[at][what] for curve in curves]) for what in ("success", "cpu_s")}
        for at in range(length)
    ]
    return reached(mean, goal, "cpu_s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", type=int, default=2, help="processes at a time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of updates")
    parser.add_argument("--episodes", type=int, default=400, help="of a measurement")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which it stops")
    parser.add_argument("--python", help="that has TRL; made in .venv-trl unless given")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    results = Results(args.out, provenance(__file__, ("torch", "torchrl", "transformers")))
    deadline = monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory() as scratch:
        plan = Plan(args, Path(scratch))
        how = {"lanes": args.lanes, "deadline": deadline, "by": runner()}
        starts = plan.starts([SWEEP_SEED, *args.seeds])
        for job in starts:  # weights are not kept
            results.rows.pop(job.key, None)
        work(starts, results, **how)
        work(plan.sweep(), results, **how)
        work(plan.finals(results.rows), results, **how)
    print(json.dumps(summary(results.rows), indent=1))


if __name__ == "__main__":
    main()
