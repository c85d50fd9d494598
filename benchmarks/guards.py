"""Do the guards of long runs hold: does a good player fall back, and which guard is worth what?

Trains GuessTheNumberEasy with the embedded model, at the defaults of ``llm-gym train`` and about
25,000 episodes, by which it had fallen from .88 to .77 at a constant rate. Each variant changes one
thing; ``before`` is how it was: a constant rate, and the last weights at the end. Every run has a
process and a thread of its own.

    python benchmarks/guards.py --lanes 12
    python benchmarks/guards.py --only default before --seeds 0 1 2 --lanes 2

A run chooses its weights by evaluations of 100 episodes; ``best`` and ``last`` are the success of
what it chose, and of its last weights, on 1,000 other held-out episodes. It has fallen back where
``best`` is below the 95 % interval of its highest evaluation.

Prints a table and writes ``benchmarks/results/guards.json``, a row as soon as it is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from time import monotonic, perf_counter, process_time
from typing import Any

from doc_tables import TEXT
from doc_tables import table as table_of
from lanes import Job, Results, work
from machine import provenance

RESULT = Path(__file__).parent / "results" / "guards.json"
ENV_ID = "llm_gym/GuessTheNumberEasy-v0"
EPISODES, FRESH = 25_000, 1000
WHOLE = {"environment.stop_at_success": None}
"""To its full length, so that curves can be compared."""
GROUPS = {"training.adv_estimator": "grpo", "training.group_size": 8}
COMPARED = ("default", "before")
"""The two that matter most: does a good player fall back now, and did it before?"""
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "before": WHOLE | {"training.lr_schedule": "constant", "checkpoint.end_with_best": False},
    "linear": WHOLE,
    "entropy 0.2": WHOLE | {"training.entropy_target": 0.2},
    "normalised values": WHOLE | {"training.normalise_values": True},
    "detached critic": WHOLE | {"model.critic": "detached"},
    "groups": WHOLE | GROUPS,
    "groups replaced": WHOLE | GROUPS | {"training.resample_zero_variance_groups": 2},
    "cosine": WHOLE | {"training.lr_schedule": "cosine"},
}


def train(variant: str, seed: int, episodes: int, folder: Path) -> dict[str, Any]:
    """Train once, in this process, and return how it went."""
    from llm_gym_agents.config import ConfigStore
    from llm_gym_agents.config.defaults import apply_defaults
    from llm_gym_agents.config.situation import look
    from llm_gym_agents.trainer import PPOTrainer

    config = ConfigStore()
    config.environment.env_id = ENV_ID
    config.training.seed, config.checkpoint.output_dir = seed, str(folder)
    config.checkpoint.record_every = 0
    changed = {"training.num_epochs": 1, **VARIANTS[variant]}
    for name, value in changed.items():
        section, setting = name.split(".")
        setattr(getattr(config, section), setting, value)
    apply_defaults(config, look(config), changed)
    an_epoch = config.training.batch_size * config.training.num_iters_per_epoch
    config.training.num_epochs = max(1, round(episodes / an_epoch))
    trainer = PPOTrainer(config)
    try:
        rows = trainer.fit()
        best = fresh(trainer)
        trainer.load_checkpoint(trainer.checkpoints.latest() or folder)
        last = fresh(trainer)
    finally:
        trainer.cleanup()
    evaluated = [row for row in rows if "eval/success" in row]
    peak = max(evaluated, key=lambda row: row["eval/success"])
    return {
        "variant": variant,
        "seed": seed,
        "episodes": len(rows) * config.training.batch_size,
        "best": best,
        "last": last,
        "peak": peak["eval/success"],
        "peak_low": peak["eval/success_low"],
        "fell": best < peak["eval/success_low"],
        "curve": [[row["iteration"], row["eval/success"]] for row in evaluated],
        "entropy": [round(row["policy/entropy"], 4) for row in evaluated],
        "flat groups": [row["group/no_spread"] for row in evaluated if "group/no_spread" in row],
        "explained": [
            round(row["value/explained_variance"], 3)
            for row in evaluated
            if "value/explained_variance" in row
        ],
    }


def fresh(trainer: Any) -> float:
    """Return the success on held-out episodes by which nothing was chosen."""
    seen = trainer.config.environment.eval_episodes
    return float(trainer.evaluate(range(seen, seen + FRESH)).success)


def jobs(options: argparse.Namespace, place: Path) -> Iterator[Job]:
    """Yield every run: whether the defaults hold first, then a seed of every variant, and so on."""
    runs = [(seed, variant) for seed in options.seeds for variant in options.only]
    for seed, variant in sorted(runs, key=lambda run: run[1] not in COMPARED):
        key = f"{variant}/{seed}"
        own = ["--one", variant, str(seed), str(place / key.replace(" ", "-"))]
        command = [sys.executable, __file__, *own, "--episodes", str(options.episodes)]
        yield Job(key, command, timeout=options.seconds)


def table(rows: Mapping[str, dict[str, Any]]) -> str:
    """Return a line for each variant: what its runs came to, and how many fell back."""
    lines = [f"{'':<20}{'runs':>5}{'peak':>8}{'best':>8}{'last':>8}{'fell':>6}{'CPU s':>7}"]
    for variant in VARIANTS:
        of = [row for row in rows.values() if row.get("variant") == variant]
        if of:
            numbers = "".join(
                f"{fmean(row[n] for row in of):>8.1%}" for n in ("peak", "best", "last")
            )
            fell, took = sum(row["fell"] for row in of), fmean(row["cpu_seconds"] for row in of)
            lines.append(f"{variant:<20}{len(of):>5}{numbers}{fell:>6}{took:>7.0f}")
    return "\n".join(lines)


def markdown(rows: Mapping[str, dict[str, Any]]) -> str:
    """Return the same for a page, from the lowest to the highest of the runs."""
    columns = {"": TEXT}
    numbers = ("runs", "highest evaluation", "best weights", "last weights", "fell back")
    columns |= dict.fromkeys(numbers, "{}")
    told = []
    for variant in VARIANTS:
        of = [row for row in rows.values() if row.get("variant") == variant]
        if of:
            spans = (_span([row[name] for row in of]) for name in ("peak", "best", "last"))
            told.append((variant, len(of), *spans, sum(row["fell"] for row in of)))
    return table_of(columns, told)


def _span(values: Sequence[float]) -> str:
    """Return the least and the most of shares, in percent.

    >>> _span([0.5, 0.25]), _span([0.5])
    ('25 to 50 %', '50 %')
    """
    ends = [f"{100 * value:.0f}" for value in (min(values), max(values))]
    return f"{' to '.join(dict.fromkeys(ends))} %"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--lanes", type=int, default=2, help="runs at a time")
    parser.add_argument("--seconds", type=float, default=3600, help="most of one run")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which it stops")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.one:
        variant, seed, folder = options.one
        start, cpu = perf_counter(), process_time()
        row = train(variant, int(seed), options.episodes, Path(folder))
        took = {"seconds": perf_counter() - start, "cpu_seconds": process_time() - cpu}
        print(json.dumps({**row, **{name: round(value, 1) for name, value in took.items()}}))
        return
    about = provenance(__file__, ("torch", "torchrl", "transformers"))
    results = Results(options.out, {**about, "env": ENV_ID})
    deadline = monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as place:
        todo = list(jobs(options, Path(place)))
        work(todo, results, lanes=options.lanes, deadline=deadline)
    print(table(results.rows))


if __name__ == "__main__":
    main()
