"""``llm-gym list``: every environment and what players score in it."""

from __future__ import annotations

import argparse
import json
import sys

import gymnasium as gym

from llm_gym.envs import ENVS
from llm_gym.scores import PLAYERS, Score, measure, published

HELP = "list the environments with turns and scores"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("pattern", nargs="?", default="", help="only ids that contain this")
    parser.add_argument(
        "--measure", type=int, metavar="N", help="play N episodes each instead of quoting scores"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    ids = [row.id for row in ENVS if options.pattern.lower() in row.id.lower()]
    if not ids:
        sys.stderr.write(f"llm-gym: no environment id contains {options.pattern!r}\n")
        return 2
    if options.json:
        rows = {env_id: _scores(env_id, options.measure) for env_id in ids}
        plain = {i: {p: s._asdict() for p, s in row.items()} for i, row in rows.items()}
        sys.stdout.write(json.dumps(plain, indent=2) + "\n")
        return 0
    width = max(map(len, ids)) + 2
    columns = "".join(f"{name:>9}" for name in ("limit", *PLAYERS))
    sys.stdout.write(f"{'environment':<{width}}{columns}\n")
    for env_id in ids:
        scores = _scores(env_id, options.measure)
        cells = "".join(f"{_percent(scores.get(player)):>9}" for player in PLAYERS)
        sys.stdout.write(f"{env_id:<{width}}{_limit(env_id):>9}{cells}\n")
        sys.stdout.flush()
    episodes = options.measure or max(s.episodes for r in published().values() for s in r.values())
    sys.stdout.write(
        f"\nlimit: turns allowed. Success over {episodes} episodes. The oracle sees everything, "
        f"the solver\nreads only observations.  Play one:  llm-gym play {ids[0]}\n"
    )
    return 0


def _scores(env_id: str, episodes: int | None) -> dict[str, Score]:
    if episodes is None:
        return published().get(env_id, {})
    env = gym.make(env_id)
    return {player: measure(env, player, episodes) for player in PLAYERS}


def _limit(env_id: str) -> str:
    return str(getattr(gym.make(env_id).unwrapped, "max_turns", None) or "-")


def _percent(score: Score | None) -> str:
    return "-" if score is None else f"{score.success:.1%}"
