"""Training beside TRL and AgileRL: the same first weights, game, batch and seconds.

Five arms: our PPO with a critic and shaped rewards, which is what ``llm-gym train`` does; the same
with the rewards as they are; our GRPO; TRL's GRPO; on CPUs AgileRL's PPO, which trains adapters.
Rewards are the same in the last four. Each arm tries the same settings on one seed, for as long as
the runs that count. The setting with the highest mean success over its run then plays five other
seeds. ``GOALS`` was fixed beforehand.

    python -m benchmarks.peers.trl --lanes 8             # a tiny model on CPUs; makes .venv-*
    python -m benchmarks.peers.trl --python python3      # TRL and AgileRL are there already
    python -m benchmarks.peers.trl --arms agilerl        # this arm only; rows of others are kept
    python -m benchmarks.peers.trl --model FOLDER        # SmolLM2-135M on one GPU, both with vLLM
    python -m benchmarks.peers.trl --seconds 5           # try it out

Rows go to ``benchmarks/results/trl_cpu.json`` or ``trl_h200.json`` as they come; what is there is
not run again. On a GPU each arm also runs alone, for its seconds per update, and TRL with
``torch.compile`` and with Liger.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median, stdev
from time import monotonic
from typing import Any, NamedTuple

from benchmarks.lib.curves import reached, smooth
from benchmarks.lib.lanes import Job, Results, first_gpu, work
from benchmarks.lib.machine import RESULTS, ROOT, provenance
from benchmarks.lib.workers import python_with

ARMS = {
    "ppo": "our PPO, shaped",
    "ppo, unshaped": "our PPO",
    "grpo": "our GRPO",
    "trl": "TRL's GRPO",
    "agilerl": "AgileRL's PPO",
}
ALONE = ("ppo", "grpo", "trl", "trl, compile", "trl, liger")
FILES = {"cpu": "trl_cpu.json", "gpu": "trl_h200.json"}
GOALS = {"cpu": 0.6, "gpu": 0.8}
"""Success at which seconds are compared: twice that of the first weights; reached by both sides."""
SECONDS = {"cpu": 180.0, "gpu": 60.0}
ALONE_S = 20.0
POINTS = 9
SWEEP_SEED, SEEDS = 5, (0, 1, 2, 3, 4)
SIDES = {"trl": "trl_side", "agilerl": "agilerl_side"}
PINNED = ("torch==2.13.0", "datasets==4.8.0")
TRL = (*PINNED, "transformers==5.19.0", "trl==1.16.0")
AGILERL = (*PINNED, "transformers==5.17.0", "peft==0.21.0", "wandb==0.31.0", "lazy-loader==0.6",
           "pettingzoo==1.27.0", "fastrand==3.1.0", "pillow")  # fmt: skip
AGILERL_ALONE = ("agilerl==2.58.0", "agilerl-arena==1.29.0")
"""Installed without dependencies: another version of TensorDict, JAX, and games."""
T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}
"""Factors of Student's t distribution, by the number of seeds."""
Row = dict[str, Any]


class Setting(NamedTuple):
    """What is tried: the learning rate, optimizer steps of a pass, passes over a batch."""

    rate: float
    parts: int = 2
    passes: int = 1

    def __str__(self) -> str:
        rate = f"{self.rate:.0e}".replace("e-0", "e-")
        steps = f"{self.parts} steps" if self.passes == 1 else f"{self.passes} x {self.parts} steps"
        return f"rate {rate}, {steps}"


SETTINGS = {
    "cpu": [
        *(Setting(rate, 2, passes) for rate in (5e-4, 1e-3, 2e-3) for passes in (1, 4)),
        *(Setting(rate, 4) for rate in (1e-3, 2e-3)),
    ],
    "gpu": [Setting(2e-5), Setting(5e-5)],
}


class Plan:
    """The runs of the comparison."""

    def __init__(self, args: argparse.Namespace, weights: Path) -> None:
        self.args, self.weights = args, weights
        self.place = "gpu" if args.model else "cpu"
        self.seconds = args.seconds or SECONDS[self.place]
        self.settings = SETTINGS[self.place]
        self.arms = [arm for arm in args.arms or ARMS if arm != "agilerl" or not args.model]
        self.pythons = {SIDES[arm]: self.python(arm) for arm in self.arms if arm in SIDES}

    def python(self, peer: str) -> str:
        """Return the Python that has a peer; it is created unless one is given."""
        if self.args.model or self.args.python:
            return sys.executable if self.args.model else str(self.args.python)
        ours = ("--editable", f"{ROOT}[train]")
        if peer == "trl":
            return python_with(peer, TRL, (*ours, *TRL))
        return python_with(peer, AGILERL, (*ours, *AGILERL), ("--no-deps", *AGILERL_ALONE))

    def starts(self) -> list[Job]:
        """Return the jobs that make first weights: one for each seed, on a GPU one for all."""
        made = {self.folder(seed): seed for seed in (SWEEP_SEED, *SEEDS)}
        return [
            self._job(f"start/{seed}", "our_side", ["start", str(folder)], seed)
            for folder, seed in made.items()
        ]

    def sweep(self) -> list[Job]:
        """Return the runs that decide the settings."""
        return [
            self.run("sweep", arm, setting, SWEEP_SEED)
            for setting in self.settings
            for arm in self.arms
        ]

    def finals(self, rows: Mapping[str, Row]) -> list[Job]:
        """Return the runs that count."""
        known = {str(setting): setting for setting in self.settings}
        chosen = {arm: known[name] for arm in self.arms if (name := best(rows, arm))}
        return [
            self.run("final", arm, setting, seed)
            for seed in SEEDS
            for arm, setting in chosen.items()
        ]

    def alone(self) -> list[Job]:
        """Return short runs that have the GPU to themselves, if there is one."""
        arms = ALONE if self.args.model and not self.args.arms else ()
        return [self.run("alone", arm, self.settings[0], 0) for arm in arms]

    def folder(self, seed: int) -> Path:
        return self.weights / ("start" if self.args.model else f"start-{seed}")

    def run(self, stage: str, arm: str, setting: Setting, seed: int) -> Job:
        seconds = min(self.seconds, ALONE_S) if stage == "alone" else self.seconds
        command = [arm, str(self.folder(seed)), "--seconds", str(seconds)]
        command += ["--rate", str(setting.rate), "--parts", str(setting.parts)]
        command += ["--passes", str(setting.passes)]
        command += ["--points", "0" if self.args.model else str(POINTS)]
        side = SIDES.get(arm.partition(",")[0], "our_side")
        return self._job(f"{stage}/{arm}/{setting}/{seed}", side, command, seed, seconds)

    def _job(
        self, key: str, side: str, command: list[str], seed: int, seconds: float = 100.0
    ) -> Job:
        python = self.pythons.get(side, sys.executable)
        full = [python, "-m", f"benchmarks.peers.{side}", *command, "--seed", str(seed)]
        if not self.args.model:
            return Job(key, full, timeout=600 + 3 * seconds)
        full += ["--gpu", *(["--model", self.args.model] if "start" in command else [])]
        return Job(key, full, timeout=200 + seconds, environ=first_gpu())


def best(rows: Mapping[str, Row], arm: str) -> str:
    """Return the setting with the highest mean success over its sweep."""
    scores = {
        key.split("/")[2]: fmean(each["success"] for each in curve(row))
        for key, row in rows.items()
        if key.startswith(f"sweep/{arm}/") and "held_out" in row
    }
    return max(scores, key=scores.__getitem__, default="")


def finals_of(rows: Mapping[str, Row], arm: str) -> list[Row]:
    """Return the finished runs of an arm with its best setting."""
    begin = f"final/{arm}/{best(rows, arm)}/"
    return [row for key, row in rows.items() if key.startswith(begin) and "held_out" in row]


def curve(row: Row) -> list[Row]:
    """Return success over time: held out, or of the last five batches where that is not known."""
    if len(row["held_out"]) > 2:
        held_out: list[Row] = row["held_out"]
        return held_out
    means = smooth([batch["success"] for batch in row["batches"]])
    return [batch | {"success": mean} for batch, mean in zip(row["batches"], means, strict=True)]


def summary(rows: Mapping[str, Row], goal: float) -> dict[str, Any]:
    """Return the results of each arm.

    ``to_goal`` is the median seconds over seeds; a seed that never reaches the goal counts as
    infinite, and an infinite median is None.
    """
    found: dict[str, Any] = {}
    for arm, name in ARMS.items():
        done = finals_of(rows, arm)
        if not done:
            continue
        ends = [row["held_out"][-1]["success"] for row in done]
        lasts = [row["batches"][-1] for row in done]
        ways = [reached(curve(row), goal, "seconds") for row in done]
        middle = median(float("inf") if way is None else way for way in ways)
        spread = (
            T_95.get(len(ends), 1.96) * stdev(ends) / len(ends) ** 0.5 if len(ends) > 1 else 0.0
        )
        found[arm] = {
            "name": name,
            "setting": best(rows, arm),
            "seeds": len(ends),
            "start": fmean(row["held_out"][0]["success"] for row in done),
            "final": fmean(ends),
            "interval": spread,
            "lowest": min(ends),
            "highest": max(ends),
            "episodes": fmean(last["episodes"] for last in lasts),
            "seconds_per_update": fmean(last["seconds"] / last["updates"] for last in lasts),
            "reached": sum(way is not None for way in ways),
            "to_goal": None if middle == float("inf") else middle,
        }
    return found


def alone(rows: Mapping[str, Row]) -> dict[str, float | None]:
    """Return the median seconds of an update of each arm that had the GPU to itself."""
    found: dict[str, float | None] = {}
    for arm in ALONE:
        for key, row in rows.items():
            if key.startswith(f"alone/{arm}/"):
                at = [batch["seconds"] for batch in row.get("batches", [])]
                steps = [after - before for before, after in itertools.pairwise(at[2:])]
                found[arm] = median(steps) if steps else None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="", help="SmolLM2-135M-Instruct, to train on a GPU")
    parser.add_argument("--lanes", type=int, default=2, help="runs at a time")
    parser.add_argument("--seconds", type=float, help="of each run")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which it stops")
    parser.add_argument("--arms", nargs="+", choices=ARMS, help="to run; all unless given")
    parser.add_argument("--python", help="that has the peers; made in .venv-* unless given")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    place = "gpu" if args.model else "cpu"
    out = args.out or RESULTS / FILES[place]
    packages = ("torch", "torchrl", "transformers", *(["trl", "vllm"] if args.model else []))
    results = Results(
        out, provenance(__file__, packages, seeds=(SWEEP_SEED, *SEEDS)) | {"goal": GOALS[place]}
    )
    deadline = monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory() as scratch:
        plan = Plan(args, Path(scratch))
        starts = plan.starts()
        for job in starts:  # weights are not kept
            results.rows.pop(job.key, None)
        work(starts, results, lanes=args.lanes, deadline=deadline)
        work(plan.alone(), results, lanes=1, deadline=deadline)
        work(plan.sweep(), results, lanes=args.lanes, deadline=deadline)
        work(plan.finals(results.rows), results, lanes=args.lanes, deadline=deadline)
    print(
        json.dumps(summary(results.rows, GOALS[place]) | {"alone": alone(results.rows)}, indent=1)
    )


if __name__ == "__main__":
    main()
