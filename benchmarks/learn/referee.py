"""Ten published claims in miniature: does each hold, is it not seen, or is it reversed?

    python -m benchmarks.learn.referee --lanes 16            # 14 arms, 5 games, 5 seeds
    python -m benchmarks.learn.referee --claims gigpo --games FrozenLake --seeds 0 --scale 0.05
    python -m benchmarks.learn.referee --model FOLDER --lanes 4   # four claims, on a GPU
    python -m benchmarks.learn.referee --minutes 0           # only the verdicts

A claim compares two arms. Both start from the same weights (the embedded model or ``--model``,
after imitating random moves) and have the same settings except for the claim's
(``referee_run.ARMS``), the plain reward, and the same number of sampled tokens, those of branches
and resampled groups included. An arm's score is its mean held-out success over the run, unless the
claim says otherwise. A pair is one game and seed. A claim holds, or is reversed, if the bootstrap
interval over pairs excludes 0. Rows are written as they come; a stopped script continues.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from benchmarks.learn.learning import weights_of, work_from_starts
from benchmarks.lib.lanes import Job, Results, calling, first_gpu
from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.lib.tables import TEXT, table

RESULT, MODEL_RESULT = RESULTS / "referee.json", RESULTS / "referee_model.json"
TOKENS = {
    "Count": 24_000, "Memory": 24_000, "GuessTheNumberEasy": 60_000, "TextGameEasy": 40_000,
    "FrozenLake": 40_000,
}  # fmt: skip
"""Game → sampled tokens of a run: about as many as success needs to come near its maximum."""
SEEDS = (0, 1, 2, 3, 4)
RUN = "benchmarks.learn.referee_run"


class Claim(NamedTuple):
    """A published claim."""

    text: str
    source: str
    better: str
    worse: str
    shorter: bool = False
    """Compare the turns of won episodes instead of success."""


CLAIMS = {
    name: Claim(text, source, better, worse, name == "shorter")
    for name, better, worse, text, source in (
        ("gigpo", "gigpo", "grpo", "GiGPO beats GRPO", "[GiGPO](https://arxiv.org/abs/2505.10978)"),
        ("turn", "ppo_turn", "ppo_token", "turn-level PPO beats token-level PPO",
         "[Turn-PPO](https://arxiv.org/abs/2512.17008)"),
        ("vine", "vine", "ppo", "VinePPO beats PPO", "[VinePPO](https://arxiv.org/abs/2410.01679)"),
        ("filter", "filter", "grpo", "starts of low variance are best left out",
         "[RAGEN-2](https://arxiv.org/abs/2604.06268)"),
        ("dapo", "dapo", "grpo", "clip-higher and dynamic sampling help", "[DAPO](https://arxiv.org/abs/2503.14476)"),
        ("dr_grpo", "dr_grpo", "grpo", "GRPO is better without the standard deviation",
         "[Dr. GRPO](https://arxiv.org/abs/2503.20783)"),
        ("gspo", "gspo", "grpo", "the ratio of a sequence beats that of a token",
         "[GSPO](https://arxiv.org/abs/2507.18071)"),
        ("reinforce", "reinforce", "grpo", "REINFORCE++ beats GRPO",
         "[REINFORCE++](https://arxiv.org/abs/2501.03262)"),
        ("rebn", "reinforce", "no_norm", "normalising returns over the batch helps REINFORCE",
         "[GEM](https://arxiv.org/abs/2510.01051)"),
        ("shorter", "discounted", "reinforce", "a discount below 1 shortens solutions",
         "[GEM](https://arxiv.org/abs/2510.01051)"),
        ("critic", "ppo", "no_critic", "PPO with a critic beats PPO without", "our own question"),
    )
}  # fmt: skip
OWN = "critic"
"""Our own claim, which is not published."""
MODEL_CLAIMS = ("gigpo", "reinforce", "gspo", "critic")
MODEL_GAMES = ("GuessTheNumberEasy", "FrozenLake")
"""Default games for ``--model``."""


def jobs(args: argparse.Namespace, weights: Path) -> tuple[list[Job], list[Job]]:
    """Return warm starts, and arms that begin with their weights, seed by seed."""
    chosen = [CLAIMS[name] for name in args.claims]
    names = dict.fromkeys(arm for claim in chosen for arm in (claim.worse, claim.better))
    environ = first_gpu() if args.model else None
    warm, arms = list[Job](), list[Job]()
    for seed, game in product(args.seeds, args.games):
        start = [game, str(seed), str(weights_of(f"{game}/{seed}", weights)), args.model or ""]
        tokens = str(round(TOKENS[game] * args.scale))
        warm.append(Job(f"{game}/{seed}/warm", calling(RUN, "warm", *start), environ=environ))
        arms += (
            Job(f"{game}/{seed}/{arm}", calling(RUN, "learn", *start, arm, tokens), 3600.0, environ)
            for arm in names
        )
    return warm, arms


def run(args: argparse.Namespace, results: Results) -> None:
    deadline = monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory() as scratch:
        weights = Path(scratch)
        warm, arms = jobs(args, weights)
        work_from_starts(warm, arms, weights, results, lanes=args.lanes, deadline=deadline)


def verdicts(rows: Mapping[str, Any]) -> list[dict[str, Any]]:
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


def shown(rows: Mapping[str, Any], model_rows: Mapping[str, Any] | None = None) -> str:
    """Return a line for each claim, with what another model came to in a last column."""

    def span(each: Mapping[str, Any]) -> str | None:
        return "{:+.3f} to {:+.3f}".format(*each["interval"]) if each["interval"] else None

    columns = {"claim": TEXT, "source": TEXT, "pairs": "{}", "gain": "{:+.3f}", "95 %": TEXT}
    columns |= {"verdict": TEXT} | ({"SmolLM2, 95 %": TEXT} if model_rows else {})
    return table(
        columns,
        [
            (each["text"], each["source"], each["pairs"], each["gain"], span(each),
             each["verdict"], *([span(other)] if model_rows else []))
            for each, other in zip(verdicts(rows), verdicts(model_rows or {}), strict=True)
        ],
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lanes", type=int, default=2, help="processes at a time")
    parser.add_argument("--model", help="a model folder, on a GPU; the embedded one by default")
    parser.add_argument("--claims", nargs="+", choices=CLAIMS)
    parser.add_argument("--games", nargs="+", choices=TOKENS)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--scale", type=float, default=1.0, help="of the tokens of a run")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which it stops")
    parser.add_argument("--results", type=Path, help="where rows are kept")
    args = parser.parse_args()
    args.claims = args.claims or (MODEL_CLAIMS if args.model else list(CLAIMS))
    args.games = args.games or (MODEL_GAMES if args.model else list(TOKENS))
    place = args.results or (MODEL_RESULT if args.model else RESULT)
    packages = ("torch", "torchrl", "transformers", "gymnasium")
    about = provenance(__file__, packages, seeds=args.seeds)
    results = Results(place, {"provenance": about})
    run(args, results)
    print(shown(results.rows))


if __name__ == "__main__":
    main()
