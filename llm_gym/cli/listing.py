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
from llm_gym.registry.suite import BRIDGES, ENVS, NEEDS, BridgeRow, installed, word_hint

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
    pattern = options.pattern.lower()
    ids = [env_id for env_id in known if pattern in f"{env_id}\n{about[env_id]}".lower()]
    # The levels of a game have one description, and are listed under its first id.
    places: dict[str, int] = {}
    for place, env_id in enumerate(known):
        places.setdefault(about[env_id] or env_id, place)
    ids.sort(key=lambda env_id: places[about[env_id] or env_id])
    bridges = [row for row in BRIDGES if pattern in row.id.lower()]
    rows = {env_id: _row(env_id, with_package=options.all) for env_id in ids}
    if not rows and (options.json or not bridges):
        hint = word_hint(options.pattern)
        hint += "" if options.all else f"; try llm-gym list --all {options.pattern}"
        raise ConfigError(f"no environment matches {options.pattern!r}{hint}")
    if options.json:
        say(json.dumps(rows, indent=2))
        return 0
    if rows:
        _print_table(rows)
    if rows and bridges:
        say("")
    if bridges:
        _print_bridges(bridges)
    return 0


def _row(env_id: str, with_package: bool) -> dict[str, Any]:
    """Return what is known about an environment; what it lacks is left out."""
    scores = published().get(env_id, {})
    row = {
        **{player: score._asdict() for player, score in scores.items()},
        "about": _about(env_id),
        "from": owner(gym.spec(env_id)) if with_package else "",
        "needs": NEEDS.get(env_id, ""),
    }
    return {name: value for name, value in row.items() if value}


def _print_table(rows: dict[str, dict[str, Any]]) -> None:
    width = max(len("environment"), *map(len, rows)) + 2
    from_width = max(len(row.get("from", "")) for row in rows.values())
    from_width += 2 * bool(from_width)
    columns = "".join(f"{name:>9}" for name in ("limit", *PLAYERS))
    say(f"{'environment':<{width}}{'from' if from_width else '':<{from_width}}{columns}")
    heading = ""
    for env_id, row in rows.items():
        if row.get("about", "") != heading:
            heading = row.get("about", "")
            say(heading)
        success = (f"{row[name]['success']:.1%}" if name in row else "-" for name in PLAYERS)
        cells = "".join(f"{cell:>9}" for cell in (_limit(env_id), *success))
        needs = f"  needs {row['needs']}" if "needs" in row else ""
        say(f"{env_id:<{width}}{row.get('from', ''):<{from_width}}{cells}{needs}")
    episodes = max(score.episodes for row in published().values() for score in row.values())
    say(
        f"\nlimit: turns allowed. Success over up to {episodes} episodes. The oracle sees "
        "everything, the solver\nreads only observations, the reflex follows one simple rule.  "
        f"Play one:  llm-gym play {next(iter(rows))}"
    )


def _print_bridges(rows: list[BridgeRow]) -> None:
    width = max(map(len, ("bridges to other suites", *(row.id for row in rows)))) + 2
    say(f"{'bridges to other suites':<{width}}needs")
    for row in rows:
        how = f"--set {row.example}" if installed(row) else install_command(row.extra)
        say(f"{row.id:<{width}}{row.package:<15}{how}")


def _others() -> list[str]:
    others = [env_id for env_id in gym.registry if env_id not in _SUITE]
    return sorted(others, key=lambda env_id: (owner(gym.spec(env_id)), env_id))


def _about(env_id: str) -> str:
    return games()[env_id][0] if env_id in _SUITE else ""


def _limit(env_id: str) -> str:
    turns = games()[env_id][1] if env_id in _SUITE else gym.spec(env_id).max_episode_steps
    return str(turns or "-")
