"""Does reinforcement learning hurt a player that is good already, and what keeps it from that?

Warm starts that imitate a solver leave a good player beside a critic that knows nothing yet: what
it says is wrong, and whitened to the size of true advantages. Each variant changes one thing, from
the same weights.

    python benchmarks/good_start.py --lanes 8
    python benchmarks/good_start.py --only SearchQAEasy --variants 'at once' slow --seeds 0
    python benchmarks/good_start.py --show                     # only the table

Runs are those of ``learning.py``: a process of one thread each, evaluated on 100 held-out episodes
on the way and on 200 others at the end. ``lowest`` is the lowest evaluation after the first. Writes
``benchmarks/results/good_start.json``, a row as soon as it is there.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from doc_tables import TEXT
from doc_tables import table as doc_table
from lanes import Job
from learning import WARM, common, run_missing

RESULT = Path(__file__).parent / "results" / "good_start.json"
EPISODES = {
    "SearchQAEasy": 5120,
    "MazeEasy": 1536,
    "TextGameMedium": 1024,
}
"""Game → episodes of a run."""
SOLVED = {"SearchQAEasy": "--warm-start.player solver"}
"""Flags of the warm start, where it would not imitate the solver by itself."""
_FAST = "--warm-start.rl-rate-factor 1"
_MILD = "--environment.env-kwargs penalty=0.02"
_LEASH = "--training.kl loss --training.kl-coef 0.05"
VARIANTS = {
    "as it is": "",
    "at once": "--warm-start.critic-iters 0",
    "mild": _MILD,
    "leash": _LEASH,
    "mild, leash": f"{_MILD} {_LEASH}",
    "fast": _FAST,
    "fast, mild": f"{_FAST} {_MILD}",
    "fast, leash": f"{_FAST} {_LEASH}",
    "fast, ramp": f"{_FAST} --training.warmup-iters 8",
}
"""Name → flags of ``llm-gym train``."""
POINTS = 5


def jobs(args: argparse.Namespace, weights: Path) -> list[Job]:
    """Return warm starts and the runs that begin with them, seed by seed."""
    found: list[Job] = []
    for seed in args.seeds:
        places = {game: weights / f"{game}-{seed}" for game in args.only}
        for game, place in places.items():
            taught = ["warm", game, str(seed), str(place), *SOLVED.get(game, "").split()]
            found.append(Job(f"{game}/{seed}/{WARM}", taught))
        for game, place in places.items():
            episodes = max(1, round(EPISODES[game] * args.scale))
            command = ["learn", game, str(seed), str(place), "--train", str(episodes)]
            command += ["--points", str(POINTS), "--episodes", str(args.episodes)]
            for name in args.variants:
                key = f"{game}/{seed}/{name}"
                found.append(Job(key, [*command, *VARIANTS[name].split()]))
    return found


def table(rows: Mapping[str, dict[str, Any]]) -> str:
    """Return a line for each game and variant: start, lowest, end, and the mean on the way."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for key, row in rows.items():
        if "curve" in row:
            found[row["game"], key.rpartition("/")[2]].append(row)
    columns = {"game": TEXT, "variant": TEXT, "seeds": "{}"}
    columns |= dict.fromkeys(("start", "lowest", "mean on the way", "end"), "{:.1%}")
    written = []
    for (game, name), runs in sorted(found.items(), key=_order):
        curves = [[point["success"] for point in run["curve"]] for run in runs]
        numbers = (
            fmean(curve[0] for curve in curves),
            fmean(min(curve[1:]) for curve in curves),
            fmean(fmean(curve[1:]) for curve in curves),
            fmean(run["final"] for run in runs),
        )
        took = fmean(run["cpu_s"] for run in runs)
        written.append((game, name, len(runs), *numbers, took))
    return doc_table(columns | {"CPU s": "{:.0f}"}, written)


def _order(found: tuple[tuple[str, str], object]) -> tuple[int, int]:
    game, name = found[0]
    return list(EPISODES).index(game), list(VARIANTS).index(name)


def parser() -> argparse.ArgumentParser:
    made = common(__doc__, EPISODES, RESULT)
    made.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    return made


def main() -> None:
    args = parser().parse_args()
    if not args.show:
        run_missing(args, __file__, jobs)
    print(table(json.loads(args.out.read_text())["rows"]))


if __name__ == "__main__":
    main()
