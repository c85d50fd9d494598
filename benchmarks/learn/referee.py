"""Ten published claims in miniature: does each hold, is it not seen, or is it reversed?

    python -m benchmarks.learn.referee --lanes 16            # 13 arms, 3 games, 5 seeds
    python -m benchmarks.learn.referee --claims gigpo --games FrozenLake --seeds 0 --scale 0.05
    python -m benchmarks.learn.referee --show                # only the verdicts

A claim compares two arms. They begin with the same warm-started weights of the embedded model. They
have the same settings but for what the claim names (``referee_run.ARMS``), the plain reward of the
game, and the same number of sampled tokens; tokens of branches and of resampled groups count. An
arm's score is its mean held-out success over the run, or what the claim says. A pair is one game
and seed. The interval is that of a bootstrap over pairs; a claim holds, or is reversed, if its
interval leaves out 0. Rows are written as they come, so the script goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from benchmarks.learn.learning import missing
from benchmarks.lib.lanes import Forks, Job, Results, work
from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.lib.tables import TEXT, table

RESULT = RESULTS / "referee.json"
TOKENS = {"FrozenLake": 60_000, "TextGameEasy": 60_000, "GuessTheNumberEasy": 100_000}
"""Game → sampled tokens of a run."""
SEEDS = (0, 1, 2, 3, 4)
RUN = "benchmarks.learn.referee_run"


class Claim(NamedTuple):
    """What somebody published, and what is smaller here."""

    says: str
    source: str
    better: str
    worse: str
    smaller: str
    shorter: bool = False
    """Compare the turns of won episodes instead of success."""


CLAIMS = {
    "gigpo": Claim(
        "GiGPO beats GRPO", "arXiv 2505.10978", "gigpo", "grpo", "ALFWorld and WebShop, 1.5B-7B"
    ),
    "turn": Claim(
        "turn-level PPO beats token-level PPO", "arXiv 2512.17008", "ppo_turn", "ppo_token",
        "WebShop and Sokoban, replies of many tokens; here of two or three",
    ),
    "vine": Claim(
        "VinePPO beats PPO", "arXiv 2410.01679", "vine", "ppo",
        "maths, 9 branches a step, compared by updates and hours; here 2, compared by tokens",
    ),
    "filter": Claim(
        "starts of low variance are best left out", "RAGEN, arXiv 2604.06268", "filter", "grpo",
        "Sokoban and FrozenLake, 0.5B-3B",
    ),
    "dapo": Claim(
        "clip-higher and dynamic sampling help", "DAPO, arXiv 2503.14476", "dapo", "grpo",
        "maths, 32B, long replies",
    ),
    "dr_grpo": Claim(
        "GRPO is better without the standard deviation", "arXiv 2503.20783", "dr_grpo", "grpo",
        "maths, 7B; there the length of a reply is not divided by either",
    ),
    "gspo": Claim(
        "the ratio of a sequence beats that of a token", "GSPO, arXiv 2507.18071", "gspo", "grpo",
        "mixture-of-experts models, long replies",
    ),
    "reinforce": Claim(
        "REINFORCE++ beats GRPO", "arXiv 2501.03262", "reinforce", "grpo", "chat and maths, 7B-8B"
    ),
    "rebn": Claim(
        "normalising returns over the batch helps REINFORCE", "GEM, arXiv 2510.01051",
        "reinforce", "no_norm", "24 environments, 1.7B-4B",
    ),
    "shorter": Claim(
        "a discount below 1 shortens solutions", "GEM, arXiv 2510.01051", "discounted",
        "reinforce", "GuessTheNumber, 1.7B-4B", shorter=True,
    ),
}  # fmt: skip


def jobs(args: argparse.Namespace, weights: Path) -> list[Job]:
    """Return warm starts and arms, seed by seed."""
    chosen = [CLAIMS[name] for name in args.claims]
    arms = dict.fromkeys(arm for claim in chosen for arm in (claim.worse, claim.better))
    found: list[Job] = []
    for seed in args.seeds:
        places = {game: str(weights / f"{game}-{seed}") for game in args.games}
        for game, place in places.items():
            found.append(Job(f"{game}/{seed}/warm", ["warm", game, str(seed), place]))
        for game, place in places.items():
            tokens = str(round(TOKENS[game] * args.scale))
            for arm in arms:
                command = ["learn", game, str(seed), place, arm, tokens]
                found.append(Job(f"{game}/{seed}/{arm}", command, timeout=3600.0))
    return found


def verdicts(rows: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what was found of each claim."""
    found = []
    for name, claim in CLAIMS.items():
        differences = [
            difference
            for key, row in rows.items()
            if key.endswith(f"/{claim.better}")
            and (other := rows.get(f"{key.rpartition('/')[0]}/{claim.worse}"))
            and (difference := gain(row, other, claim.shorter)) is not None
        ]
        ends = interval(differences)
        verdict = "not run" if not differences else "not seen"
        if ends is not None and not ends[0] <= 0 <= ends[1]:
            verdict = "holds" if ends[0] > 0 else "reversed"
        row = {"claim": name, **claim._asdict(), "pairs": len(differences), "interval": ends}
        mean = fmean(differences) if differences else None
        found.append({**row, "gain": mean, "verdict": verdict})
    return found


def gain(row: Mapping[str, Any], other: Mapping[str, Any], shorter: bool) -> float | None:
    """Return how much better a run is than another; None where that is unknown."""
    name = "turns_won" if shorter else "mean"
    if row.get(name) is None or other.get(name) is None:
        return None
    return float(other[name] - row[name]) if shorter else float(row[name] - other[name])


def interval(values: Sequence[float]) -> list[float] | None:
    """Return the 95 % interval of the mean; None of fewer than three values.

    >>> interval([0.5, 0.5, 0.5]), interval([0.5])
    ([0.5, 0.5], None)
    """
    if len(values) < 3:
        return None
    drawn = np.random.default_rng(0).choice(values, (4000, len(values))).mean(1)
    ends: list[float] = np.quantile(drawn, [0.025, 0.975]).tolist()
    return ends


def shown(found: Sequence[Mapping[str, Any]]) -> str:
    columns = {"claim": TEXT, "source": TEXT, "pairs": "{}", "gain": "{:+.3f}", "95 %": TEXT}
    columns |= {"verdict": TEXT, "larger there": TEXT}
    return table(
        columns,
        [
            (each["says"], each["source"], each["pairs"], each["gain"],
             "{:+.3f} to {:+.3f}".format(*each["interval"]) if each["interval"] else None,
             each["verdict"], each["smaller"])
            for each in found
        ],
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lanes", type=int, default=2, help="processes at a time")
    parser.add_argument("--claims", nargs="+", choices=CLAIMS, default=list(CLAIMS))
    parser.add_argument("--games", nargs="+", choices=TOKENS, default=list(TOKENS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--scale", type=float, default=1.0, help="of the tokens of a run")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which it stops")
    parser.add_argument("--results", type=Path, default=RESULT, help="where rows are kept")
    parser.add_argument("--show", action="store_true", help="run nothing")
    args = parser.parse_args()
    about = provenance(__file__, ("torch", "torchrl", "transformers", "gymnasium"))
    results = Results(args.results, {"provenance": about})
    if not args.show:
        deadline = monotonic() + 60 * args.minutes
        with tempfile.TemporaryDirectory() as scratch:
            todo = missing(jobs(args, Path(scratch)), results)
            work(todo, results, lanes=args.lanes, deadline=deadline, by=Forks(RUN))
    found = verdicts(results.rows)
    if not args.show:
        whole = json.loads(args.results.read_text())
        args.results.write_text(json.dumps({**whole, "verdicts": found}, indent=1) + "\n")
    print(shown(found))


if __name__ == "__main__":
    main()
