"""Which settings does the demo's recipe have, and why these?

Runs ``make demo`` with some of its settings changed, on seeds that ``demo.py`` does not report,
each run in a process and a thread of its own. Whoever reaches the end in the fewest CPU seconds
wins, if no seed of it ends below 90 % on fresh episodes.

    python benchmarks/demo_sweep.py --lanes 14 --minutes 5
    python benchmarks/demo_sweep.py --only recipe one_pass --seeds 3 4 5 6

CPU seconds are of the whole command, as in ``demo.py``: compare them within one file only.

Prints a table and writes ``benchmarks/results/demo_sweep.json``, a row as soon as it is there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import monotonic

from lanes import Job, Results, Row, work
from machine import provenance

RESULT = Path(__file__).parent / "results" / "demo_sweep.json"
SEEDS = (3, 4, 5)
BEFORE = ("warm_start.steps=250", "warm_start.turns=20000", "training.lr_schedule=constant",
          "training.num_epochs=12", "environment.stop_at_success=0.9")  # fmt: skip
"""The recipe as it was when the sweep began. Of a setting named twice the last counts."""
SHORT = (*BEFORE, "warm_start.steps=100", "warm_start.turns=8000")
FALLING = (*SHORT, "training.lr_schedule=linear", "training.num_epochs=6")
SURE = (*FALLING, "training.num_epochs=5", "environment.stop_at_success=0.92")
VARIANTS: dict[str, tuple[str, ...]] = {
    "recipe": (),
    "before": BEFORE,
    "short": SHORT,
    "falling": FALLING,
    "one_pass": (*FALLING, "training.ppo_epochs=1", "training.mini_batch_size=8"),
    "faster": (*FALLING, "training.learning_rate=1.2e-3"),
    "fewer": (*FALLING, "training.num_epochs=5"),
    "fewest": (*FALLING, "training.num_epochs=4", "training.learning_rate=1.2e-3"),
    "bold": (*FALLING, "training.entropy_coef=0.003"),
    "smaller": (*FALLING, "training.batch_size=96", "training.mini_batch_size=12"),
    "bold_smaller": (*FALLING, "training.batch_size=96", "training.mini_batch_size=12",
                     "training.entropy_coef=0.003"),
    "sure": SURE,  # as the recipe is now
    "sure_bold": (*SURE, "training.entropy_coef=0.003"),
    "sure_smaller": (*SURE, "training.batch_size=96", "training.mini_batch_size=12"),
    "sure_longer": (*SURE, "training.num_epochs=6"),
    "half": (*FALLING, "training.batch_size=64", "training.mini_batch_size=8",
             "training.num_epochs=10"),
    "shorter": (*FALLING, "warm_start.steps=60", "warm_start.turns=5000"),
    "one_pass_faster": (*FALLING, "training.ppo_epochs=1", "training.mini_batch_size=8",
                        "training.learning_rate=1.2e-3"),
    "far_sighted": (*FALLING, "training.gamma=0.95", "training.gae_lambda=0.95"),
    "unclipped": (*FALLING, "training.max_grad_norm=1.0"),
}  # fmt: skip
"""What each changes."""


def jobs(variants: list[str], seeds: list[int]) -> list[Job]:
    """Return a run for each variant and seed, all variants of a seed before the next seed."""
    script = str(Path(__file__).with_name("demo.py"))
    command = [sys.executable, script, "--threads", "1", "--row"]
    return [
        Job(
            f"{variant}/{seed}",
            [*command, "--seeds", str(seed), "--set", *VARIANTS[variant]],
            timeout=300,
        )
        for seed in seeds
        for variant in variants
    ]


def table(rows: dict[str, Row]) -> str:
    """Return a line for each variant, the cheapest first."""
    by_variant: dict[str, list[Row]] = {}
    for key, row in rows.items():
        if "error" not in row:
            by_variant.setdefault(key.split("/")[0], []).append(row)
    lines = []
    for variant, found in by_variant.items():
        costs, ends = ([row[name] for row in found] for name in ("cpu_s", "fresh"))
        mean, worst = sum(costs) / len(costs), max(costs)
        steps = " ".join(str(row["iterations"]) for row in found)
        line = f"{variant:18}{mean:8.1f}{worst:8.1f}{min(ends):8.1%}   {steps}"
        lines.append((mean, line))
    head = f"{'':18}{'CPU s':>8}{'most':>8}{'fresh':>8}   iterations"
    return "\n".join([head, *(line for _, line in sorted(lines))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    settings = {name: list(changed) for name, changed in VARIANTS.items()}
    about = provenance(__file__, ("torch", "torchrl", "transformers")) | {"variants": settings}
    results = Results(args.out, about)
    todo = jobs(args.only, args.seeds)
    work(todo, results, lanes=args.lanes, deadline=monotonic() + 60 * args.minutes)
    print(table(results.rows))


if __name__ == "__main__":
    main()
