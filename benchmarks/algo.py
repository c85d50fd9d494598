"""Time per million tokens of the estimators and losses, beside what else one could run.

Contenders of one task are timed in turn, round after round, in one process and on one thread, so
that a busy machine disturbs all alike; ratios are medians over rounds of ratios within a round.
Slow or wasteful contenders get fewer tokens and their time is scaled to a million; where their
cost grows faster than the tokens, that favours them.

    OMP_NUM_THREADS=1 python benchmarks/algo.py
    OMP_NUM_THREADS=1 python benchmarks/algo.py --rounds 9 --only gae

Prints a table and writes ``benchmarks/results/algo.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from timeit import default_timer

import torch
from algo_contenders import Contender, gae_contenders, other_contenders
from machine import provenance

RESULT = Path(__file__).parent / "results" / "algo.json"


def measure(contenders: list[Contender], rounds: int) -> list[dict[str, object]]:
    """One row per contender: seconds per million tokens, and how many times ours that is."""
    seconds: dict[int, list[float]] = {i: [] for i in range(len(contenders))}
    for round_ in range(rounds + 1):
        for i, contender in enumerate(contenders):
            start = default_timer()
            contender.run()
            elapsed = default_timer() - start
            if round_:  # the first round warms up
                seconds[i].append(elapsed * 1e6 / contender.tokens)
    rows = []
    ours = 0
    for i, contender in enumerate(contenders):
        if contender.task != contenders[ours].task:
            ours = i
        ratios = [mine / base for mine, base in zip(seconds[i], seconds[ours], strict=True)]
        rows.append(
            {
                "task": contender.task,
                "name": contender.name,
                "tokens": contender.tokens,
                "s_per_million": round(statistics.median(seconds[i]), 4),
                "fastest": round(min(seconds[i]), 4),
                "slowest": round(max(seconds[i]), 4),
                "times_ours": round(statistics.median(ratios), 2),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1_000_000, help="tokens of our runs")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    parser.add_argument("--only", default="", help="tasks that contain this text")
    parser.add_argument("--out", type=Path, default=RESULT, help="where to write the result")
    args = parser.parse_args()

    # On small tensors two threads wait for each other longer than they work.
    torch.set_num_threads(1)
    contenders = [
        contender
        for contender in gae_contenders(args.tokens) + other_contenders(args.tokens)
        if args.only in contender.task
    ]
    if not contenders:
        parser.error(f"no task contains {args.only!r}")
    rows = measure(contenders, args.rounds)

    print(f"{'task':<31}{'':<31}{'tokens':>10}{'s per million':>15}{'times ours':>12}")
    for row in rows:
        print(
            f"{row['task']:<31}{row['name']:<31}{row['tokens']:>10,}"
            f"{row['s_per_million']:>15.3f}{row['times_ours']:>12.1f}"
        )
    about = provenance(__file__, ("torch", "torchrl"))
    result = {**about, "threads": torch.get_num_threads(), "rows": rows}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
