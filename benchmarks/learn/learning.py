"""Does it learn, with every estimator? Success against episodes and CPU time, seed after seed.

Seven games, five seeds, seven estimators, and a control with shuffled advantages. Each run is a
process with one thread. It starts from the warm-started weights of its game and seed, which
imitated random moves, and ends when nearly all episodes are won.

    python -m benchmarks.learn.learning --lanes 13                  # everything, about 20 minutes
    python -m benchmarks.learn.learning --lanes 2 --only Echo Count # these games
    python -m benchmarks.learn.learning --only Echo --estimators grpo --out tried.json \
        --flags " " "--training.learning-rate 5e-4"           # what a setting does

Rows go to ``benchmarks/results/learning.json`` as they come; a stopped script continues. Seed 0
comes first, cheap games before others. ``lib/figures.py`` draws the figures.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from benchmarks.lib.lanes import Job, Results, calling, work
from benchmarks.lib.machine import RESULTS, provenance

RESULT = RESULTS / "learning.json"
RUN = "benchmarks.learn.learning_run"
EPISODES = {
    "Echo": 6144,
    "Count": 5120,
    "Memory": 5120,
    "GuessTheNumberEasy": 20480,
    "FrozenLake": 5120,
    "TextGameEasy": 4096,
    "TextGameMedium": 1024,
}
"""Game → maximum training episodes (10 to 100 CPU seconds), cheap games first. The learning rate
falls to 0 over them."""
POINTS = {"TextGameMedium": 4}
"""Evaluations per run, for games where they are expensive; otherwise 8."""
ESTIMATORS = ("gae", "gae_turn", "grpo", "rloo", "reinforce_plus_plus", "gigpo", "state_td")
SEEDS = (0, 1, 2, 3, 4)
CONTROL, CONTROL_SEED = "shuffled", 0
LAST = "TextGameMedium"


def jobs(args: argparse.Namespace, weights: Path) -> tuple[list[Job], list[Job]]:
    """Return warm starts, and runs that begin with their weights: seed by seed."""
    warm, runs = list[Job](), list[Job]()
    for seed, game in itertools.product(args.seeds, args.only):
        start = [game, str(seed), str(weights_of(f"{game}/{seed}", weights))]
        warm.append(Job(f"{game}/{seed}/warm", calling(RUN, "warm", *start)))
        names = [*args.estimators, *([CONTROL] if seed == CONTROL_SEED else [])]
        for name, flags in itertools.product(names, args.flags):
            numbers = map(str, (EPISODES[game], POINTS.get(game, 8), args.episodes))
            command = calling(RUN, "learn", *start, name, *numbers, *flags.split())
            runs.append(Job(f"{game}/{seed}/{name} {flags}".rstrip(), command))
    return warm, sorted(runs, key=lambda job: job.key.startswith(LAST))


def weights_of(key: str, weights: Path) -> Path:
    """Return the folder of the warm-started weights of a job."""
    game, seed, *_ = key.split("/")
    return weights / f"{game}-{seed}"


def work_from_starts(
    warm: Sequence[Job],
    runs: Sequence[Job],
    weights: Path,
    results: Results,
    *,
    lanes: int,
    deadline: float,
) -> None:
    """Do what the result file lacks. Weights are in no file: warm starts are made again."""
    todo = [job for job in runs if results.lacks(job.key)]
    needed = {weights_of(job.key, weights) for job in todo}
    starts = [job for job in warm if weights_of(job.key, weights) in needed]
    results.again |= {job.key for job in starts}
    work(starts, results, lanes=lanes, deadline=deadline)
    todo = [job for job in todo if weights_of(job.key, weights).exists()]
    work(todo, results, lanes=lanes, deadline=deadline)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", type=int, default=2, help="processes at a time")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--only", nargs="+", choices=EPISODES, default=list(EPISODES))
    parser.add_argument("--episodes", type=int, default=100, help="of an evaluation")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which it stops")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--estimators", nargs="*", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument(
        "--flags", nargs="+", default=[""], help="settings to try, one after another"
    )
    args = parser.parse_args()
    results = Results(
        args.out, provenance(__file__, ("torch", "torchrl", "transformers"), seeds=args.seeds)
    )
    deadline = monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory() as scratch:
        weights = Path(scratch)
        warm, runs = jobs(args, weights)
        work_from_starts(warm, runs, weights, results, lanes=args.lanes, deadline=deadline)


if __name__ == "__main__":
    main()
