"""What playing ahead costs in learning and brings in speed: staleness 0, 1, 4 beside one process.

The embedded model learns a game on two Ray actors and a learner, one thread each, from the same
warm-started weights: *in_process* plays and learns in turn, *0* waits for fresh weights, *1* and
*4* play that many iterations ahead. All of them play the same named episodes.

    python benchmarks/staleness.py --lanes 2               # needs ray: pip install "llm-gym[ray]"
    python benchmarks/staleness.py --train 256 --seeds 0    # to try it out

Rows go to ``benchmarks/results/staleness.json`` as they come, and ``equal`` says whether at
staleness 0 every number was that of one process, to the bit. Nothing is evaluated on the way, which
actors that play ahead would get for nothing: ``curve`` is the success of the batches themselves,
``final`` that of held-out episodes at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from lanes import Job, Results, work
from machine import provenance

HERE = Path(__file__).parent
RESULT = HERE / "results" / "staleness.json"
KINDS = ("in_process", "0", "1", "4")
ACTORS = 2
SHOWN = ("ray/staleness_mean", "ray/staleness_max", "time/actor_idle", "mismatch/ess")


def learn(args: argparse.Namespace) -> dict[str, Any]:
    """Train one kind from the weights of ``args.weights``; return its curve and its speed."""
    import torch
    from counted import CountedRun, untimed
    from curves.run import settings

    from llm_gym_agents.model.load import load_model, load_tokenizer

    torch.set_num_threads(1)
    kind, seed = args.run
    config = settings(args.game, int(seed))
    batch = config.training.batch_size
    iterations = max(2, args.train // batch)
    config.warm_start.player, config.environment.eval_interval = "none", 0
    config.training.num_epochs, config.training.num_iters_per_epoch = 1, iterations
    config.inference.isolated_batch_size = (
        batch // ACTORS
    )  # what is played apart comes to the same bits
    if kind != "in_process":
        config.ray.use_ray, config.ray.num_actors = True, ACTORS
        config.ray.staleness = int(kind)
    folder = str(args.weights / f"{args.game}-{seed}")
    with tempfile.TemporaryDirectory() as place:
        config.checkpoint.output_dir = place
        run = CountedRun(config, model=load_model(folder), tokenizer=load_tokenizer(folder))
        try:
            rows = run.fit()
            final = run.trainer.evaluate(args.episodes).success
        finally:
            run.close()
    steps = [later - earlier for earlier, later in itertools.pairwise(run.moments)]
    numbers = json.dumps(untimed(rows), sort_keys=True).encode()
    return {
        "game": args.game,
        "seed": int(seed),
        "iterations": iterations,
        "final": final,
        "episodes_per_s": round(batch * len(steps) / sum(steps), 2),
        "iteration_s": round(statistics.median(steps), 3),
        "ids": run.ids[: batch * iterations] == list(range(batch * iterations)),
        "numbers": hashlib.sha256(numbers).hexdigest()[:16],
        "mean": {
            name: round(statistics.mean(row[name] for row in rows[1:]), 4)
            for name in SHOWN
            if name in rows[-1]
        },
        "curve": [
            {"episodes": batch * (at + 1), "success": round(row["episode/success"], 4)}
            for at, row in enumerate(rows)
        ],
    }


def in_lanes(args: argparse.Namespace) -> None:
    """Warm up each seed, train every kind from it, and compare."""
    results = Results(args.out, provenance(__file__, ("torch", "ray", "torchrl")))
    end = monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory() as scratch:
        weights = args.weights or Path(scratch)
        warm, jobs = [], []
        for seed in map(str, args.seeds):
            place = weights / f"{args.game}-{seed}"
            script = [sys.executable, "-W", "ignore", str(HERE / "curves" / "run.py"), "warm"]
            if not (place / "config.json").exists():
                key = f"{args.game}/{seed}/warm"
                warm.append(Job(key, [*script, args.game, seed, str(place)]))
            own = [sys.executable, "-W", "ignore", __file__, *sys.argv[1:]]
            own += ["--weights", str(weights), "--run"]
            jobs += [Job(f"{args.game}/{seed}/{kind}", [*own, kind, seed]) for kind in KINDS]
        work(warm, results, lanes=args.lanes, deadline=end)
        work(jobs, results, lanes=args.lanes, deadline=end)
    for seed in args.seeds:
        found = [results.rows.get(f"{args.game}/{seed}/{kind}", {}) for kind in KINDS[:2]]
        if all("numbers" in row for row in found):
            equal = found[0]["numbers"] == found[1]["numbers"]
            results.add(f"{args.game}/{seed}/equal", {"equal": equal})
            print(f"seed {seed}: staleness 0 equals one process: {equal}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", default="TextGameEasy")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--train", type=int, default=4096, help="episodes to train on")
    parser.add_argument("--episodes", type=int, default=200, help="of the evaluation at the end")
    parser.add_argument("--lanes", type=int, default=1, help="runs at a time, three cores each")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which it stops")
    parser.add_argument("--weights", type=Path, help="keeps the warm-started models here")
    parser.add_argument("--run", nargs=2, metavar=("KIND", "SEED"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(learn(args)))
    else:
        in_lanes(args)


if __name__ == "__main__":
    main()
