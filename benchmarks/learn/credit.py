"""How near does each estimator come to the true advantage of a turn, before and after training?

    python -m benchmarks.learn.credit --lanes 10                       # ten games
    python -m benchmarks.learn.credit --only TextGameEasy --flags " " "--model.critic separate" \
        "--training.value-learning-rate 1e-2" "--environment.env-kwargs shaping=false"

Each run is PPO with its critic as ``llm-gym train ID`` would do it, but for the warm start: where
the solver's moves teach all there is, random moves are imitated. The judge of ``llm-gym eval
--credit`` looks at the run after the warm start and at the end. ``--flags`` tries settings, such as
those of the critic. Rows are written as they come, so the script goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.lib.lanes import Forks, Job, Results, work
from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.lib.tables import TEXT, table

RESULT = RESULTS / "credit.json"
RUN = "benchmarks.learn.credit_run"
GAMES = {
    "GuessTheNumberEasy": "random", "MastermindEasy": "random", "CoinCollectorEasy": "random",
    "FrozenLake": "random", "TextGameEasy": "random", "FifteenPuzzleEasy": "random",
    "SokobanEasy": "solver", "MinesweeperEasy": "solver", "WordleEasy": "solver",
    "MazeEasy": "solver",
}  # fmt: skip
"""Game → whose moves are imitated first, so that neither all episodes are won nor none."""


def jobs(args: argparse.Namespace) -> Iterator[Job]:
    for seed in args.seeds:
        for game in args.only:
            for flags in args.flags:
                numbers = (seed, args.iterations, args.branches, args.turns)
                key = f"{game}/{seed} {flags}".strip()
                player = ("--warm-start.player", GAMES.get(game, "auto"))
                command = [game, *map(str, numbers), *player, *flags.split()]
                yield Job(key, command, timeout=7200.0)


def tables(rows: Mapping[str, Any]) -> str:
    """Return the correlation of every estimator with the truth, and what critics explain."""
    found, names = [], dict[str, str]()
    for key, row in sorted(rows.items()):
        for when in ("before", "after"):
            if when not in row:
                continue
            one = row[when]
            names |= dict.fromkeys(one["estimators"], "{:.2f}")
            cells = {name: each["correlation"][0] for name, each in one["estimators"].items()}
            critic = one["critic"][0] if one["critic"] else None
            found.append((f"{key}, {when}", one["success"], critic, one["ceiling"], cells))
    columns = {"run": TEXT, "success": "{:.0%}", "critic explains": "{:.2f}", "ceiling": "{:.2f}"}
    lines = [(*first, *(cells.get(name) for name in names)) for *first, cells in found]
    return table({**columns, **names}, lines)


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
    parser.add_argument("--flags", nargs="+", default=[""], help="settings to try")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which it stops")
    parser.add_argument("--results", type=Path, default=RESULT, help="where rows are kept")
    args = parser.parse_args()
    about = provenance(__file__, ("torch", "torchrl", "transformers", "gymnasium"))
    results = Results(args.results, {"provenance": about})
    deadline = monotonic() + 60 * args.minutes
    work(list(jobs(args)), results, lanes=args.lanes, deadline=deadline, by=Forks(RUN))
    print(tables(results.rows))


if __name__ == "__main__":
    main()
