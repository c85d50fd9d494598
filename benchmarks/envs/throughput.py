r"""How fast the environments are, beside GEM and TextArena with the same parameters.

Each suite runs in its own process (the peers in ``.venv-peers``, which this script creates) and
plays the same random valid moves. Slices of the suites alternate, one process at a time, so that
other load affects all alike. Ours is ``gym.make`` with Gymnasium's wrappers; GEM is its bare
environment and TextArena its ``-raw`` one, the fastest form of each. Steps include resets.

Further parts: 64 environments in one vector environment, compared with GEM's with and without
threads; every id of ours alone with random usable moves, which are chosen while the clock is
stopped; and every game with short replies that it refuses, compared with ``strict=True``.

    python -m benchmarks.envs.throughput
    python -m benchmarks.envs.throughput --only Lake --peers textarena --repeats 15
    python -m benchmarks.envs.throughput --peers | tail -1 | jq .alone

Prints tables; the last line of stdout is the same as JSON. A run of everything beside all peers
writes ``results/env_throughput.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from operator import truediv
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.envs.replies import families
from benchmarks.lib.machine import GAME_PATHS, RESULTS, ROOT, provenance
from benchmarks.lib.workers import Worker
from benchmarks.peers.games import GAMES, OURS, PEERS, VECTORS, Game, Side, moves_of
from llm_gym.core.errors import ConfigError
from llm_gym.registry.suite import ENVS

RESULT = RESULTS / "env_throughput.json"
IMPORTS = """
from timeit import default_timer as now
start = now()
import gymnasium
middle = now()
import llm_gym
print(middle - start, now() - middle)
"""
HEADER = ("game", "suite", "steps/s", "spread", "turns", "reset µs", "p99")
LINE = "{:<44}{:<13}{:>10}{:>8}{:>8}{:>10}{:>10}"
ACTIONS = {OURS: "{}", "gem": r"\boxed{{{}}}", "textarena": "[{}]"}
"""The form of a move in each suite."""
SHORT = 40  # characters of a short reply
ENDLESS = 100_000  # turns, so that almost only steps are timed
ALONE = 3  # slices of an id without a peer
RESETS = 500  # most resets timed in one slice
STRICT = f"{OURS} strict"
SAID = ("I do not know.", "xyzzy", "pass", "Yes.", "42 17 99 3")  # beside the moves of all games


class Suite(Worker):
    """A suite that plays games."""

    def __init__(self, name: str) -> None:
        super().__init__("benchmarks.peers.worker", name)

    def make(self, game: Game, label: str) -> dict[str, str]:
        """Build a side of ``game``; return the versions of its packages, or an ``error``."""
        side: Side = game.sides[label]
        template = side.action or ACTIONS[self.name]
        answer: dict[str, str] = self.ask(
            op="make",
            game=label,
            id=side.id,
            kwargs=side.kwargs,
            actions=[template.format(move) for move in moves_of(game, label)],
            players=side.players,
            envs=side.envs,
            threads=side.threads,
        )
        if "error" not in answer:
            self.ask(op="play", game=label, seconds=0.1)  # warm up
        return answer


class Suites:
    """The processes and the versions of their packages."""

    def __init__(self, names: Sequence[str]) -> None:
        self.all = {name: Suite(name) for name in names}
        self.packages: dict[str, str] = {}

    def compare(self, game: Game, repeats: int, seconds: float) -> dict[str, Any]:
        """Return the row of one game: the figures of every side, from alternating slices."""
        playing: dict[str, Suite] = {}
        skipped: dict[str, str] = {}
        for label in game.sides:
            suite = self.all.get(label.split()[0])
            if suite is None:
                continue
            answer = suite.make(game, label)
            if "error" in answer:
                skipped[label] = answer["error"]
            else:
                playing[label] = suite
                self.packages |= answer
        if OURS not in playing:
            raise RuntimeError(f"{game.name} of our own cannot be built: {skipped[OURS]}")
        figure = measure(playing, repeats, seconds, resets=not game.sides[OURS].envs)
        about = {"game": game.name, "note": game.note, "skipped": skipped}
        return {**about, **ratios(figure), "suites": figure}

    def close(self) -> None:
        for suite in self.all.values():
            suite.close()


def measure(
    playing: dict[str, Suite], repeats: int, seconds: float, *, resets: bool
) -> dict[str, dict[str, Any]]:
    plays: dict[str, list[dict[str, float]]] = {label: [] for label in playing}
    times: dict[str, list[float]] = {label: [] for label in playing}
    order = list(playing)
    for repeat in range(repeats):
        first = repeat % len(order)  # rotate the order of the sides
        for label in order[first:] + order[:first]:
            ask = playing[label].ask
            plays[label].append(ask(op="play", game=label, seconds=seconds))
            if resets:
                times[label] += ask(op="reset", game=label, seconds=seconds, most=RESETS)
    return {label: figures(plays[label], times[label]) for label in playing}


def figures(plays: list[dict[str, float]], resets: list[float]) -> dict[str, Any]:
    rates = [play["steps"] / play["seconds"] for play in plays]
    middle = statistics.median(rates)
    episodes = sum(play["episodes"] for play in plays)
    found: dict[str, Any] = {
        "steps_per_s": round(middle),
        "spread": round((max(rates) - min(rates)) / middle, 3),
        "slices": [round(rate) for rate in rates],
        "steps_per_episode": round(sum(play["steps"] for play in plays) / max(episodes, 1), 2),
    }
    if resets:
        found["reset_us"] = round(1e6 * statistics.median(resets), 1)
        found["reset_p99_us"] = round(1e6 * float(np.percentile(resets, 99)), 1)
    return found


def ratios(sides: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return our speed over the faster peer's: by slice, and in resets."""
    peers = {name: figure for name, figure in sides.items() if name != OURS}
    if not peers:
        return {}
    ours, faster = sides[OURS], max(peers, key=lambda name: peers[name]["steps_per_s"])
    each = {
        name: round(statistics.median(map(truediv, ours["slices"], figure["slices"])), 2)
        for name, figure in peers.items()
    }
    found = {"faster_peer": faster, "steps_ratio": each[faster], "steps_ratios": each}
    if "reset_us" in ours:
        fastest = min(peer["reset_us"] for peer in peers.values())
        found["reset_ratio"] = round(fastest / ours["reset_us"], 2)
    return found


def refused_replies() -> list[Game]:
    """Return every game with moves of its own that it refuses, and with those of other games."""
    drawn = {name: random_moves(name) for name in families()}
    others = [move for moves in drawn.values() for move in moves[:3] if len(move) <= SHORT]
    games = []
    for name, own in drawn.items():
        kwargs = {"max_turns": ENDLESS}
        try:
            env = gym.make(name, **kwargs)
        except (ConfigError, TypeError):  # it has a limit of its own
            env, kwargs = gym.make(name), {}
        for what, moves in (("its own moves", own), ("other replies", [*others, *SAID])):
            refused = [move for move in moves if is_refused(env, move)]
            sides = {OURS: Side(name, kwargs), STRICT: Side(name, {**kwargs, "strict": True})}
            if refused:
                games.append(Game(f"{name}, {what}", refused, sides))
    return games


def random_moves(name: str) -> list[str]:
    env, moves = gym.make(name), list[str]()
    for seed in range(5):
        env.reset(seed=seed)
        ended = False
        while not ended and len(moves) < 40 * (seed + 1):
            moves.append(env.unwrapped.random_action())  # type: ignore[attr-defined]
            ended = env.step(moves[-1])[2]
    return list(dict.fromkeys(moves))


def is_refused(env: gym.Env[str, str], move: str) -> bool:
    env.reset(seed=0)
    return not env.step(move)[4]["valid_action"]


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
        cells = (f"{figure['steps_per_s']:,}", f"{figure['spread']:.0%}")
        cells += (figure["steps_per_episode"],)
        cells += (figure.get("reset_us", "-"), figure.get("reset_p99_us", "-"))
        print(LINE.format(row["game"], name, *cells), flush=True)
    for name, why in row["skipped"].items():
        print(f"  without {name}: {why}")
    if "steps_ratios" in row:
        each = ", ".join(f"{ratio}x {name}" for name, ratio in row["steps_ratios"].items())
        resets = f"; resets {row['reset_ratio']}x the fastest" if "reset_ratio" in row else ""
        print(f"  {each}{resets}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.3, help="length of one slice")
    parser.add_argument("--repeats", type=int, default=9, help="slices per game and suite")
    parser.add_argument("--only", default="", help="only games whose name contains this text")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="default: all")
    args = parser.parse_args()
    alone = [Game(row.id, [], {OURS: Side(row.id, moves=[])}) for row in ENVS]
    tables = {
        name: [game for game in games if args.only in game.name]
        for name, games in (
            ("rows", GAMES),
            ("vector", VECTORS),
            ("alone", alone),
            ("refused", refused_replies()),
        )
    }
    if not any(tables.values()):
        parser.error(f"no game has {args.only!r} in its name")

    about, imports = provenance(__file__, depends_on=GAME_PATHS), import_seconds(args.repeats)
    suites = Suites([OURS, *args.peers])
    result: dict[str, Any] = {**about, "import": imports}
    result |= {name: [] for name in ("rows", "unmatched", "vector", "alone", "refused")}
    for name, games in tables.items():
        print(LINE.format(*HEADER))
        for game in games:
            repeats = min(ALONE, args.repeats) if name in ("alone", "refused") else args.repeats
            row = suites.compare(game, repeats, args.seconds)
            unmatched = name == "rows" and "steps_ratio" not in row
            result["unmatched" if unmatched else name].append(row)
            print_row(row)
    suites.close()
    print(f"import llm_gym, on top of gymnasium: {imports['llm_gym_on_top_s']:.3f} s")
    result["machine"]["packages"] = suites.packages
    if not args.only and set(args.peers) == set(PEERS):
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
