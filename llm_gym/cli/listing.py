"""``llm-gym list``: every environment and what players score in it."""

import argparse
import json
from typing import Any

import gymnasium as gym

from llm_gym.cli.common import add_imports, import_modules
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError, install_command
from llm_gym.evaluate.scores import PLAYERS, games, published
from llm_gym.registry.lookup import owner
from llm_gym.registry.suite import (
    BRIDGES,
    ENVS,
    NEEDS,
    BridgeRow,
    installed,
    word_hint,
)

_SUITE = frozenset(row.id for row in ENVS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "pattern", nargs="?", default="", help="list only ids or descriptions that contain this"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also list environments of Gymnasium and of imported packages",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_imports(parser)


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    import_modules(options)
    known = [row.id for row in ENVS] + (_others() if options.all else [])
    about = {env_id: _about(env_id) for env_id in known}
    wanted = options.pattern.lower()
    ids = [env_id for env_id in known if wanted in f"{env_id}\n{about[env_id]}".lower()]
    # The levels of a game have one description, and are listed under its first id.
    places = {about[env_id] or env_id: at for at, env_id in reversed([*enumerate(known)])}
    ids.sort(key=lambda env_id: places[about[env_id] or env_id])
    bridges = [row for row in BRIDGES if wanted in row.id.lower()]
    if bridges and not ids and not options.json:
        _print_bridges(bridges)
        return 0
    if not ids:
        hint = word_hint(options.pattern)
        hint += "" if options.all else f"; try llm-gym list --all {options.pattern}"
        raise ConfigError(f"no environment matches {options.pattern!r}{hint}")
    if options.json:
        say(json.dumps(_rows(ids, options), indent=2))
        return 0
    width = max(len("environment"), *map(len, ids)) + 2
    owners = {env_id: owner(gym.spec(env_id)) for env_id in ids} if options.all else {}
    wide = max(map(len, owners.values()), default=0) + 2 * bool(owners)
    columns = "".join(f"{name:>9}" for name in ("limit", *PLAYERS))
    say(f"{'environment':<{width}}{'from' * options.all:<{wide}}{columns}")
    heading = ""
    for env_id in ids:
        if about[env_id] != heading:
            heading = about[env_id]
            say(heading)
        scores = published().get(env_id, {})
        won = (f"{scores[name].success:.1%}" if name in scores else "-" for name in PLAYERS)
        cells = "".join(f"{share:>9}" for share in won)
        whose = f"{owners.get(env_id, ''):<{wide}}"
        needs = f"  needs {NEEDS[env_id]}" if env_id in NEEDS else ""
        say(f"{env_id:<{width}}{whose}{_limit(env_id):>9}{cells}{needs}")
    episodes = max(score.episodes for row in published().values() for score in row.values())
    say(
        f"\nlimit: turns allowed. Success over up to {episodes} episodes. The oracle sees "
        "everything, the solver\nreads only observations, the reflex follows one simple rule.  "
        f"Play one:  llm-gym play {ids[0]}"
    )
    if bridges:
        say("")
        _print_bridges(bridges)
    return 0


def _print_bridges(rows: list[BridgeRow]) -> None:
    width = max(map(len, ("bridges to other suites", *(row.id for row in rows)))) + 2
    say(f"{'bridges to other suites':<{width}}needs")
    for row in rows:
        how = f"--set {row.example}" if installed(row) else install_command(row.extra)
        say(f"{row.id:<{width}}{row.package:<15}{how}")


def _others() -> list[str]:
    others = [env_id for env_id in gym.registry if env_id not in _SUITE]
    return sorted(others, key=lambda env_id: (owner(gym.spec(env_id)), env_id))


def _rows(ids: list[str], options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for env_id in ids:
        scores = published().get(env_id, {})
        rows[env_id] = {player: score._asdict() for player, score in scores.items()}
        if about := _about(env_id):
            rows[env_id]["about"] = about
        if options.all:
            rows[env_id]["from"] = owner(gym.spec(env_id))
        if env_id in NEEDS:
            rows[env_id]["needs"] = NEEDS[env_id]
    return rows


def _about(env_id: str) -> str:
    return games()[env_id][0] if env_id in _SUITE else ""


def _limit(env_id: str) -> str:
    turns = games()[env_id][1] if env_id in _SUITE else gym.spec(env_id).max_episode_steps
    return str(turns or "-")
