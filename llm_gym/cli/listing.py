"""``llm-gym list``: every environment and what players score in it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import gymnasium as gym

from llm_gym.cli.common import add_imports, import_modules
from llm_gym.cli.parser import whole
from llm_gym.errors import ConfigError
from llm_gym.evaluate.scores import PLAYERS, Score, measure, published
from llm_gym.registry.bridges import BRIDGES, BridgeRow, install_line, installed
from llm_gym.registry.plugins import owner
from llm_gym.registry.suite import ENVS, NEEDS

_SUITE = frozenset(row.id for row in ENVS)
HELP = "list the environments with turns and scores"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("pattern", nargs="?", default="", help="only ids that contain this")
    parser.add_argument(
        "--measure",
        type=whole(1),
        metavar="N",
        help="play N episodes each instead of quoting scores",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also those of plugins, of Gymnasium and of imported packages, and whose they are",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_imports(parser)


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    import_modules(options)
    known = [row.id for row in ENVS] + (_others() if options.all else [])
    ids = [env_id for env_id in known if options.pattern.lower() in env_id.lower()]
    bridges = [row for row in BRIDGES if options.pattern.lower() in row.id.lower()]
    if bridges and not ids and not options.json:
        _tell_bridges(bridges)
        return 0
    if not ids:
        hint = "" if options.all else "; --all looks beyond the suite"
        raise ConfigError(f"no environment id contains {options.pattern!r}{hint}")
    if options.json:
        sys.stdout.write(json.dumps(_rows(ids, options), indent=2) + "\n")
        return 0
    width = max(len("environment"), *map(len, ids)) + 2
    owners = {env_id: owner(gym.spec(env_id)) for env_id in ids} if options.all else {}
    wide = max(map(len, owners.values()), default=0) + 2 * bool(owners)
    columns = "".join(f"{name:>9}" for name in ("limit", *PLAYERS))
    sys.stdout.write(f"{'environment':<{width}}{'from' * options.all:<{wide}}{columns}\n")
    for env_id in ids:
        scores = _scores(env_id, options.measure)
        cells = "".join(f"{_percent(scores.get(player)):>9}" for player in PLAYERS)
        whose = f"{owners.get(env_id, ''):<{wide}}"
        needs = f"  needs {NEEDS[env_id]}" if env_id in NEEDS else ""
        sys.stdout.write(f"{env_id:<{width}}{whose}{_limit(env_id):>9}{cells}{needs}\n")
        sys.stdout.flush()
    episodes = options.measure or max(s.episodes for r in published().values() for s in r.values())
    sys.stdout.write(
        f"\nlimit: turns allowed. Success over {episodes} episodes. The oracle sees everything, "
        f"the solver\nreads only observations.  Play one:  llm-gym play {ids[0]}\n"
    )
    if bridges:
        sys.stdout.write("\n")
        _tell_bridges(bridges)
    return 0


def _tell_bridges(rows: list[BridgeRow]) -> None:
    """Print the bridges to other suites, and what each of them needs."""
    width = max(map(len, ("bridges to other suites", *(row.id for row in rows)))) + 2
    sys.stdout.write(f"{'bridges to other suites':<{width}}needs\n")
    for row in rows:
        how = f"--set {row.example}" if installed(row) else install_line(row.package)
        suite = row.package.partition(".")[0]
        sys.stdout.write(f"{row.id:<{width}}{suite:<15}{how}\n")


def _others() -> list[str]:
    """Return the ids outside the suite, package by package."""
    others = [env_id for env_id in gym.registry if env_id not in _SUITE]
    return sorted(others, key=lambda env_id: (owner(gym.spec(env_id)), env_id))


def _rows(ids: list[str], options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for env_id in ids:
        scores = _scores(env_id, options.measure)
        rows[env_id] = {player: score._asdict() for player, score in scores.items()}
        if options.all:
            rows[env_id]["from"] = owner(gym.spec(env_id))
        if env_id in NEEDS:
            rows[env_id]["needs"] = NEEDS[env_id]
    return rows


def _scores(env_id: str, episodes: int | None) -> dict[str, Score]:
    if episodes is None or env_id not in _SUITE:
        return published().get(env_id, {})
    env = gym.make(env_id)
    return {player: measure(env, player, episodes) for player in PLAYERS}


def _limit(env_id: str) -> str:
    # Other people's environments may need what is not installed, so these are not built.
    turns = gym.spec(env_id).max_episode_steps
    if env_id in _SUITE:
        turns = getattr(gym.make(env_id).unwrapped, "max_turns", None)
    return str(turns or "-")


def _percent(score: Score | None) -> str:
    return "-" if score is None else f"{score.success:.1%}"
