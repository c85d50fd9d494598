"""Does RL keep the success of the warm start? Every family, from its solver's moves.

    python -m benchmarks.learn.steady --lanes 12                     # the embedded model
    python -m benchmarks.learn.steady --model path/to/SmolLM2-135M   # a given one, on a GPU
    python -m benchmarks.learn.steady --with "--training.max-kl 1000" CookingWorldEasy

Each run is ``llm-gym train ID --warm-start.player solver`` at full length. Rows are written as they
come; a stopped script continues. The table compares held-out success at the start, at its lowest
and at the end, for families that start above 80 %. "Kept" counts seeds whose lowest evaluation is
within the interval of their start, on the same episodes; "end" uses fresh episodes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.learn.train_all import FAMILIES, SUMMED_UP
from benchmarks.lib.lanes import Job, Results, first_gpu, work
from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.lib.tables import TEXT, table

RESULT = RESULTS / "steady.json"
GOOD = 0.8
"""Success at the start from which a family is compared."""
PERFECT = 0.98
"""Lowest success of families that share a sentence."""
HOUR = 3600.0


def jobs(
    families: Iterable[str],
    seeds: Iterable[int],
    model: str | None,
    more: str,
    until: float,
    on_gpu: float,
) -> Iterator[Job]:
    """Yield a run of each family and seed; a key says what differs from the defaults."""
    for seed in seeds:
        for family in families:
            words = [f"llm-gym train llm_gym/{family}-v0 --warm-start.player solver"]
            words += [f"--training.seed {seed} --environment.stop-at-success 1.0"]
            words += [f"--model {model}"] * bool(model) + [more] * bool(more)
            name = Path(model).name if model else "embedded"
            program = [
                sys.executable,
                "-m",
                "benchmarks.learn.train_one",
                " ".join(words),
                str(until),
            ]
            key = " ".join(filter(None, (family, name, str(seed), more)))
            if model:
                yield Job(key, [*program, "--free", str(on_gpu)], HOUR, first_gpu())
            else:
                yield Job(key, program, HOUR)


def compared(result: Any) -> str:
    """Return a line for each family and variant that starts well, over its seeds.

    Families in which a given model is always near 100 % share a sentence.
    """
    groups: dict[tuple[str, str, str], list[Any]] = {}
    for key, row in result["rows"].items():
        if row.get("curve") and row["curve_start"] > GOOD:
            family, model, _, more = f"{key} ".split(" ", 3)
            more = f"`{more.strip()}`" if more else "defaults"
            groups.setdefault((family, model, more), []).append(row)
    columns = {"family": TEXT, "model": TEXT, "with": TEXT, "seeds": "{}", "start": "{:.0%}"}
    columns |= {"lowest": "{:.0%}", "kept": "{}", "end": "{:.0%}", "largest KL": "{:.3f}"}
    found, perfect = [], []
    for names, runs in sorted(groups.items(), key=lambda group: (group[0][2][0] == "`", group[0])):
        start = fmean(run["curve_start"] for run in runs)
        lowest = min(min(run["curve"]) for run in runs)
        if lowest >= PERFECT and names[1] != "embedded" and names[2] == "defaults":
            perfect.append(names[0])
            continue
        kept = sum(min(run["curve"]) >= run["curve_start_low"] for run in runs)
        end = fmean(run["success"]["trained"] for run in runs)
        kl = max(run["kl_most"] for run in runs)
        found.append((*names, len(runs), start, lowest, kept, end, kl))
    always = (
        f"With a given model, no evaluation is below {PERFECT:.0%} in {', '.join(perfect)}.\n\n"
    )
    return always * bool(perfect) + table(columns, found)


TABLES = {"steady": (compared, "steady")}
"""Marker on a page → what writes its table, and the result file that it reads."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", help="such as CookingWorldEasy; all by default")
    parser.add_argument("--model", help="a model folder; the embedded one by default")
    parser.add_argument("--with", dest="more", default="", help="further flags of llm-gym train")
    parser.add_argument("--seconds", type=float, default=HOUR, help="of a run with --model")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--lanes", type=int, default=1, help="runs side by side")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which it stops")
    parser.add_argument("--results", type=Path, default=RESULT, help="where rows are kept")
    options = parser.parse_args()
    packages = ("torch", "torchrl", "transformers", "gymnasium")
    about = provenance(__file__, packages, seeds=options.seeds)
    results = Results(options.results, {"provenance": about})
    seconds, families = 60 * options.minutes, options.families or FAMILIES
    until = time.time() + seconds - SUMMED_UP
    todo = jobs(families, options.seeds, options.model, options.more, until, options.seconds)
    deadline = time.monotonic() + seconds
    work(list(todo), results, lanes=options.lanes, deadline=deadline)
    print(compared({"rows": results.rows}))


if __name__ == "__main__":
    main()
