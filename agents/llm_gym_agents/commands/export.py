"""``llm-gym export``: data and packages for other trainers, or for a warm start."""

import argparse
import json
from pathlib import Path
from typing import Any

import gymnasium as gym

from llm_gym.cli.common import add_settings, build, import_modules, settings
from llm_gym.cli.parser import Parser, whole
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError
from llm_gym.core.splits import SPLITS
from llm_gym.evaluate.scores import PLAYERS
from llm_gym.registry.lookup import find_spec
from llm_gym.registry.user_code import close_user_env

_KINDS = ("prompts", "episodes", "verl", "tools", "verifiers", "openenv", "records", "hub")
Row = dict[str, Any]


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    if options.kind in ("records", "hub"):
        say(_from_run(options))
        return 0
    import_modules(options)
    kwargs = settings(options.set)
    close_user_env(build(options.env, kwargs))  # known to be there before anything is loaded
    out = Path(options.out or f"{options.kind}.jsonl")
    if options.kind in ("verifiers", "openenv"):
        from llm_gym_agents.export.packages import write_openenv, write_verifiers

        write = write_verifiers if options.kind == "verifiers" else write_openenv
        text = str(write(options.out or ".", options.env, **kwargs))
    elif options.kind == "tools":
        from llm_gym_agents.export.episodes import tool_definitions

        env = gym.make(find_spec(options.env), **kwargs)
        text = json.dumps(tool_definitions(env), indent=2)
    elif out.suffix not in (".jsonl", ".parquet"):
        raise ConfigError(f"--out must end in .jsonl or .parquet, got {out.name!r}")
    else:
        text = _write(_rows(options, kwargs), out)
    say(text)
    return 0


def _from_run(options: argparse.Namespace) -> str:
    from llm_gym_agents.export.hub import push, write_dataset

    run = Path(options.env)
    if options.kind == "hub":
        if options.name is None:
            raise ConfigError("export hub needs a name: llm-gym export hub RUN OWNER/NAME")
        return push(run, options.name)
    out = Path(options.out or "records")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out must be a new or empty folder, got {out}, which has files")
    return f"{out}: {write_dataset(run, out)} episodes"


def _rows(options: argparse.Namespace, kwargs: dict[str, Any]) -> list[Row]:
    from llm_gym_agents.export.episodes import episode_rows, prompt_rows
    from llm_gym_agents.export.verl import verl_rows

    seeds = range(options.seed, options.seed + options.episodes)
    split = None if options.split == "all" else options.split
    if options.kind == "prompts":
        return prompt_rows(options.env, seeds, split=split, **kwargs)
    if options.kind == "verl":
        return verl_rows(options.env, seeds, **kwargs)
    if options.split is None:
        env = build(options.env, kwargs)
        has_splits = env.has_wrapper_attr("has_splits") and env.get_wrapper_attr("has_splits")
        split = "train" if has_splits else None
        close_user_env(env)
    chosen = {"player": options.player, "only_won": options.only_won}
    rows = episode_rows(options.env, seeds, split=split, **chosen, **kwargs)
    if not rows:
        raise ConfigError(
            f"{options.player} won none of {options.episodes} episodes, so there is nothing to "
            "write; play more, or leave --only-won out"
        )
    for row in rows:
        # What the last move led to is left out: there is nothing to learn in answering it.
        last = max(at for at, each in enumerate(row["messages"]) if each["role"] == "assistant")
        row["messages"] = row["messages"][: last + 1]
    return rows


def _write(rows: list[Row], path: Path) -> str:
    from llm_gym_agents.export.episodes import as_dataset

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        as_dataset(rows).to_parquet(str(path))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="ascii")
    return f"{path}: {len(rows)} rows"


def _parser() -> Parser:
    parser = Parser(
        prog="llm-gym export",
        description="Write data for other trainers: first prompts, episodes of a built-in player "
        "as chat messages, rows for verl, tool definitions, or a package for verifiers or OpenEnv. "
        "records RUN writes the recorded episodes of a run as a data set; hub RUN NAME uploads the "
        "model of a run, or such a data set, to the Hugging Face hub. A warm start can read the "
        "episodes: --warm-start.player FILE.jsonl.",
        epilog="TRL and SkyRL-Gym take objects instead: llm_gym_agents.export.trl and .skyrl "
        "(docs/other_libraries.md)",
    )
    parser.add_argument("kind", choices=_KINDS)
    parser.add_argument("env", help="an id such as llm_gym/TextGame-v0; records, hub: a run")
    parser.add_argument("name", nargs="?", help="hub: the repository, OWNER/NAME")
    parser.add_argument("--out", help="a .jsonl or .parquet file; for packages a folder")
    parser.add_argument("--episodes", type=whole(1), default=1000, help="number of episodes (1000)")
    parser.add_argument("--seed", type=whole(0), default=0, help="seed of the first episode (0)")
    parser.add_argument(
        "--split",
        choices=(*SPLITS, "all"),
        help="split (default for episodes: train if there are splits; else all)",
    )
    parser.add_argument("--player", choices=PLAYERS, default="solver", help="player (solver)")
    parser.add_argument("--only-won", action="store_true", help="write only won episodes")
    add_settings(parser)
    return parser
