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
CONTROL, WARM = "shuffled", "warm"
SEEDS, CONTROL_SEED = (0, 1, 2, 3, 4), 0
LAST = "TextGameMedium"


def jobs(args: argparse.Namespace, weights: Path) -> list[Job]:
    """Return warm starts and the runs that begin with them: seed by seed, cheap games first."""
    found: list[Job] = []
    for seed in args.seeds:
        places = {game: weights / f"{game}-{seed}" for game in EPISODES if game in args.only}
        for game, place in places.items():
            command = calling(RUN, "warm", game, str(seed), str(place))
            found.append(Job(f"{game}/{seed}/{WARM}", command))
        for game, place in places.items():
            names = [*args.estimators, *([CONTROL] if seed == CONTROL_SEED else [])]
            for name, flags in itertools.product(names, args.flags):
                numbers = EPISODES[game], POINTS.get(game, 8), args.episodes
                what = ("learn", game, str(seed), str(place), name, *map(str, numbers))
                key = f"{game}/{seed}/{name} {flags}".rstrip()
                found.append(Job(key, calling(RUN, *what, *flags.split())))
    return sorted(found, key=lambda job: job.key.startswith(LAST))


def missing(found: list[Job], results: Results) -> list[Job]:
    """Return the jobs to be done; weights are in no file, so a missing run needs its warm start."""
    learn = [job for job in found if not job.key.endswith(WARM) and results.lacks(job.key)]
    needed = {job.key.rpartition("/")[0] for job in learn}
    warm = [job for job in found if job.key.endswith(WARM) and job.key.rpartition("/")[0] in needed]
    for job in warm:
        results.rows.pop(job.key, None)
    wanted = {job.key for job in (*learn, *warm)}
    return [job for job in found if job.key in wanted]


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
        todo = missing(jobs(args, Path(scratch)), results)
        work(todo, results, lanes=args.lanes, deadline=deadline)


if __name__ == "__main__":
    main()
