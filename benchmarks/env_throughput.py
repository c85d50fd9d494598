r"""How fast the environments are, beside GEM and TextArena with the same parameters.

Each suite runs in a process of its own (the peers in ``.venv-peers``, which this script creates)
and plays the same random valid moves. Slices of the suites alternate in short turns, one process
at a time, so that whatever else the machine does hits all of them alike. Ours is what a user
gets from ``gym.make``, Gymnasium's wrappers included; GEM is its bare environment and TextArena
its ``-raw`` one, the fastest form of each (TextArena's default wrapper never forgets an earlier
episode and gets slower with every step). Steps include the resets that occur in play.

    python benchmarks/env_throughput.py
    python benchmarks/env_throughput.py --only Lake --peers textarena --repeats 15
    python benchmarks/env_throughput.py --peers | tail -1 | jq .rows

Prints a table; the last line of stdout is the same as JSON. A run of all games and peers writes
``results/env_throughput.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

import numpy as np
from machine import provenance
from peers.games import GAMES, OURS, PEERS, Game
from peers.suites import ROOT, Suite

RESULT = ROOT / "benchmarks" / "results" / "env_throughput.json"
IMPORTS = """
from timeit import default_timer as now
start = now()
import gymnasium
middle = now()
import llm_gym
print(middle - start, now() - middle)
"""
HEADER = ("game", "suite", "steps/s", "spread", "turns", "reset µs", "p99")
LINE = "{:<36}{:<11}{:>10}{:>8}{:>8}{:>10}{:>10}"


def measure(
    game: Game, suites: list[Suite], repeats: int, seconds: float
) -> dict[str, dict[str, Any]]:
    """Return the figures of each suite, from slices that take turns."""
    plays: dict[str, list[dict[str, float]]] = {suite.name: [] for suite in suites}
    resets: dict[str, list[float]] = {suite.name: [] for suite in suites}
    for repeat in range(repeats):
        first = repeat % len(suites)  # nobody always follows the same neighbour
        for suite in suites[first:] + suites[:first]:
            plays[suite.name].append(suite.ask(op="play", game=game.name, seconds=seconds))
            resets[suite.name] += suite.ask(op="reset", game=game.name, seconds=seconds, most=500)
    return {name: figures(plays[name], resets[name]) for name in plays}


def figures(plays: list[dict[str, float]], resets: list[float]) -> dict[str, Any]:
    rates = [play["steps"] / play["seconds"] for play in plays]
    middle = statistics.median(rates)
    episodes = sum(play["episodes"] for play in plays)
    return {
        "steps_per_s": round(middle),
        "spread": round((max(rates) - min(rates)) / middle, 3),
        "slices": [round(rate) for rate in rates],
        "steps_per_episode": round(sum(play["steps"] for play in plays) / max(episodes, 1), 2),
        "reset_us": round(1e6 * statistics.median(resets), 1),
        "reset_p99_us": round(1e6 * float(np.percentile(resets, 99)), 1),
    }


def compare(suites: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return how we stand to the faster peer: slice by slice, and in resets."""
    peers = {name: figure for name, figure in suites.items() if name != OURS}
    if not peers:
        return {}
    faster = max(peers, key=lambda name: peers[name]["steps_per_s"])
    pairs = zip(suites[OURS]["slices"], peers[faster]["slices"], strict=True)
    return {
        "faster_peer": faster,
        "steps_ratio": round(statistics.median(ours / theirs for ours, theirs in pairs), 2),
        "reset_ratio": round(
            min(peer["reset_us"] for peer in peers.values()) / suites[OURS]["reset_us"], 2
        ),
    }


def import_seconds(repeats: int) -> dict[str, float]:
    """Return the median time of importing Gymnasium, and of llm_gym after it."""
    times = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True, cwd=ROOT
        )
        times.append([float(seconds) for seconds in done.stdout.split()])
    gymnasium_s, on_top_s = (
        round(statistics.median(column), 4) for column in zip(*times, strict=True)
    )
    return {"gymnasium_s": gymnasium_s, "llm_gym_on_top_s": on_top_s}


def print_row(row: dict[str, Any]) -> None:
    for name, figure in row["suites"].items():
        print(
            LINE.format(
                row["game"],
                name,
                f"{figure['steps_per_s']:,}",
                f"{figure['spread']:.0%}",
                figure["steps_per_episode"],
                figure["reset_us"],
                figure["reset_p99_us"],
            )
        )
    if "steps_ratio" in row:
        print(
            f"  {row['steps_ratio']}x the steps/s of {row['faster_peer']}, the faster peer; "
            f"{row['reset_ratio']}x the resets/s of the fastest reset\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.3, help="length of one slice")
    parser.add_argument("--repeats", type=int, default=9, help="slices per game and suite")
    parser.add_argument("--only", default="", help="only games whose name contains this text")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="default: all")
    args = parser.parse_args()
    games = [game for game in GAMES if args.only in game.name]
    if not games:
        parser.error(f"no game has {args.only!r} in its name")

    about, imports = provenance(__file__), import_seconds(args.repeats)
    suites = [Suite(name) for name in (OURS, *args.peers)]
    print(LINE.format(*HEADER))
    packages: dict[str, str] = {}
    rows = []
    for game in games:
        playing = [suite for suite in suites if suite.name in game.suites]
        for suite in playing:
            packages |= suite.make(game)
        figure = measure(game, playing, args.repeats, args.seconds)
        rows.append({"game": game.name, **compare(figure), "suites": figure})
        print_row(rows[-1])
    for suite in suites:
        suite.close()
    print(f"import llm_gym, on top of gymnasium: {imports['llm_gym_on_top_s']:.3f} s")
    about["machine"]["packages"] = packages
    result = {**about, "import": imports, "rows": rows}
    if len(games) == len(GAMES) and set(args.peers) == set(PEERS):
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
