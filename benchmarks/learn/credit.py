"""How near does each estimator come to the true advantage of a turn, before and after training?

    python -m benchmarks.learn.credit --lanes 16                       # ten games, and critics
    python -m benchmarks.learn.credit --only FrozenLake --flags " " "--model.critic separate"

Each run is PPO with its critic as ``llm-gym train ID`` would do it, but for the warm start: where
the solver's moves teach all there is, random moves are imitated. The judge of ``llm-gym eval
--credit`` looks at the run after the warm start and at the end. One game has further runs with
other settings of the critic. Rows are written as they come: a stopped script goes on where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

from benchmarks.lib.lanes import Forks, Job, Results, work
from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.lib.tables import TEXT, table

RESULT = RESULTS / "credit.json"
RUN = "benchmarks.learn.credit_run"
GAMES = {
    "MazeEasy": "solver", "MinesweeperEasy": "solver", "WordleEasy": "solver",
    "SokobanEasy": "solver", "FrozenLake": "random", "TextGameEasy": "random",
    "CoinCollectorEasy": "random", "FifteenPuzzleEasy": "random", "MastermindEasy": "random",
    "GuessTheNumberEasy": "random",
}  # fmt: skip
"""Game → whose moves are imitated first, so that neither all episodes are won nor none."""


CRITICS = (
    "--training.value-learning-rate 1e-2",
    "--training.critic-warmup-iters 3",
    "--training.critic-warmup-iters 3 --training.value-learning-rate 1e-2",
    "--training.normalise-values",
    "--model.critic separate",
    "--environment.env-kwargs shaping=false",
)
"""Settings of the critic that are tried in ``TRIED``."""
TRIED = "TextGameEasy"


def jobs(args: argparse.Namespace) -> Iterator[Job]:
    """Yield a run of each game with each of ``args.flags``; without any, critics in ``TRIED``."""
    runs = list(product(args.only, args.flags or [""]))
    runs += [(TRIED, flags) for flags in CRITICS if args.flags is None and TRIED in args.only]
    for seed, (game, flags) in product(args.seeds, runs):
        numbers = map(str, (seed, args.iterations, args.branches, args.turns))
        player = ("--warm-start.player", GAMES.get(game, "auto"))
        command = [game, *numbers, *player, *flags.split()]
        yield Job(f"{game}/{seed} {flags}".strip(), command, timeout=7200.0)


WHEN = {"before": "after the warm start", "after": "after training"}
Judged = tuple[str, str, Mapping[str, Any]]
"""A run, when it was judged, and what was found."""


def judged(rows: Mapping[str, Any]) -> list[Judged]:
    """Return every judgement of runs that did not fail."""
    return [
        (key, when, row[when]) for when in WHEN for key, row in sorted(rows.items()) if when in row
    ]


def runs(rows: Mapping[str, Any]) -> str:
    """Return a line for each run: its success, its truth, and what its critic explains."""
    columns = {"game/seed, settings": TEXT, "judged": TEXT, "success": "{:.0%}", "turns": "{}"}
    columns |= {"spread of true advantages": "{:.2f}", "ceiling": "{:.2f}"}
    columns |= {"the critic explains": TEXT, "of at most": "{:.2f}"}
    lines = []
    for key, when, one in judged(rows):
        name, _, flags = key.partition(" ")
        found = (one[each] for each in ("success", "turns", "spread", "ceiling"))
        explained = (value(one["critic"]), one["critic_ceiling"])
        lines.append((name + (f", `{flags}`" if flags else ""), WHEN[when], *found, *explained))
    return table(columns, lines)


def value(found: Sequence[float | None] | None) -> str | None:
    """Return a value with its interval."""
    if found is None or found[0] is None:
        return None
    return ("{:.2f}" if None in found else "{:.2f} ({:.2f} to {:.2f})").format(*found)


def averages(
    rows: Mapping[str, Any], what: str, when: str
) -> tuple[list[str], dict[str, list[float | None]]]:
    """Return the games, and ``what`` of each estimator: over all games, then game by game."""
    cells: dict[str, dict[str, list[float]]] = {}
    for key, at, one in judged(rows):
        if at != when or " " in key:  # with other settings
            continue
        game = key.partition("/")[0]
        found = {name: each[what][0] for name, each in one["estimators"].items()}
        if what == "correlation":
            found["a perfect estimate"] = one["ceiling"] or None  # 0: nothing but noise
        for name, value in found.items():
            own = cells.setdefault(name, {}).setdefault(game, [])
            own += [] if value is None else [value]
    games = list(dict.fromkeys(game for own in cells.values() for game in own))
    means = {}
    for name, own in cells.items():
        each = [fmean(own[game]) if own.get(game) else None for game in games]
        known = [mean for mean in each if mean is not None]
        means[name] = [fmean(known) if known else None, *each]
    return games, means


def estimators(rows: Mapping[str, Any], what: str, when: str) -> str:
    """Return ``what`` of each estimator in each game, the mean of seeds, and over all games."""
    games, means = averages(rows, what, when)
    columns = {"estimator": TEXT, **dict.fromkeys(("mean", *games), "{:.2f}")}
    return table(columns, [(name, *each) for name, each in means.items()])


def correlations(rows: Mapping[str, Any]) -> str:
    """Return the mean correlation of each estimator with the truth, before and after training."""
    found = [averages(rows, "correlation", when)[1] for when in WHEN]
    lines = [(name, *(each[name][0] for each in found if name in each)) for name in found[0]]
    return table({"estimator": TEXT, **dict.fromkeys(WHEN.values(), "{:.2f}")}, lines)


def page(rows: Mapping[str, Any]) -> str:
    """Return everything that was found."""
    parts = [runs(rows)]
    for what, title in {"correlation": "Correlation", "sign": "Sign agreement"}.items():
        for when, said in WHEN.items():
            parts.append(
                f"**{title} with the true advantage, {said}:**\n\n{estimators(rows, what, when)}"
            )
    failed = [key for key, row in rows.items() if "error" in row]
    parts += [f"{len(failed)} runs failed: {', '.join(failed)}."] if failed else []
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lanes", type=int, default=2, help="processes at a time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", default=list(GAMES), help="games")
    parser.add_argument("--iterations", type=int, default=40, help="of training in between")
    parser.add_argument("--branches", type=int, default=32, help="from each state")
    parser.add_argument("--turns", type=int, default=64, help="that are judged")
    parser.add_argument("--flags", nargs="+", help="settings to try (those of the critic)")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which it stops")
    parser.add_argument("--results", type=Path, default=RESULT, help="where rows are kept")
    args = parser.parse_args()
    about = provenance(__file__, ("torch", "torchrl", "transformers", "gymnasium"))
    results = Results(args.results, {"provenance": about})
    deadline = monotonic() + 60 * args.minutes
    work(list(jobs(args)), results, lanes=args.lanes, deadline=deadline, by=Forks(RUN))
    print(page(results.rows))


if __name__ == "__main__":
    main()
