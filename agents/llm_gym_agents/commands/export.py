"""``llm-gym export``: data and packages for other trainers."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym

from llm_gym.cli.common import add_settings, import_modules, settings
from llm_gym.cli.parser import Parser, whole
from llm_gym.core.splits import SPLITS
from llm_gym.errors import ConfigError
from llm_gym.evaluate.scores import PLAYERS
from llm_gym.registry.plugins import find_spec
from llm_gym_agents.export.episodes import (
    Row,
    as_dataset,
    episode_rows,
    prompt_rows,
    tool_definitions,
)
from llm_gym_agents.export.verifiers import write_package
from llm_gym_agents.export.verl import verl_rows

_KINDS = ("prompts", "episodes", "verl", "tools", "verifiers")


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    import_modules(options)
    kwargs = settings(options.set)
    if options.kind == "verifiers":
        told = str(write_package(options.out or ".", options.env, **kwargs))
    elif options.kind == "tools":
        env = gym.make(find_spec(options.env), **kwargs)
        told = json.dumps(tool_definitions(env), indent=2)
    else:
        told = _write(_rows(options, kwargs), Path(options.out or f"{options.kind}.jsonl"))
    sys.stdout.write(told + "\n")
    return 0


def _rows(options: argparse.Namespace, kwargs: dict[str, Any]) -> list[Row]:
    seeds = range(options.seed, options.seed + options.episodes)
    if options.kind == "prompts":
        return prompt_rows(options.env, seeds, split=options.split, **kwargs)
    if options.kind == "verl":
        return verl_rows(options.env, seeds, **kwargs)
    chosen = {"player": options.player, "only_won": options.only_won}
    return episode_rows(options.env, seeds, split=options.split, **chosen, **kwargs)


def _write(rows: list[Row], path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        as_dataset(rows).to_parquet(str(path))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="ascii")
    else:
        raise ConfigError(f"--out must end in .jsonl or .parquet, got {path.name!r}")
    return f"{path}: {len(rows)} rows"


def _parser() -> Parser:
    parser = Parser(
        prog="llm-gym export",
        description="Write what other trainers read: the beginnings of episodes, episodes of "
        "a built-in player, rows of verl, tool definitions, or a package for verifiers.",
        epilog="TRL and SkyRL-Gym take objects instead: llm_gym_agents.export.trl and .skyrl "
        "(docs/serve_and_export.md)",
    )
    parser.add_argument("kind", choices=_KINDS)
    parser.add_argument("env", help="an id such as llm_gym/TextGame-v0")
    parser.add_argument("--out", help="a .jsonl or .parquet file; for verifiers a folder")
    parser.add_argument("--episodes", type=whole(1), default=1000, help="how many (1000)")
    parser.add_argument("--seed", type=whole(0), default=0, help="seed of the first episode (0)")
    parser.add_argument("--split", choices=SPLITS, help="which instances (default: all)")
    parser.add_argument("--player", choices=PLAYERS, default="solver", help="who plays (solver)")
    parser.add_argument("--only-won", action="store_true", help="leave out episodes that were lost")
    add_settings(parser)
    return parser
