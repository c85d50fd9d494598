"""``llm-gym eval``: let a model play an environment, or the whole suite, and say how it went."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

import gymnasium as gym
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from llm_gym.cli.common import add_settings, settings
from llm_gym.envs import ENVS
from llm_gym.errors import ConfigError
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.load import BACKENDS
from llm_gym_agents.evaluation import Evaluation, rollout
from llm_gym_agents.policy import LLMPolicy


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    if (options.env is None) == (not options.suite):
        raise ConfigError("name one environment, or pass --suite for all of them")
    sys.path.insert(0, "")
    for module in options.modules:
        importlib.import_module(module)
    ids = _chosen(options)
    policy = LLMPolicy.from_pretrained(
        options.model,
        engine=options.engine,
        context=options.context,
        sampling=Sampling(
            max_tokens=options.max_tokens, temperature=options.temperature, top_p=options.top_p
        ),
        run_seed=options.seed,
        system_prompt=options.system_prompt,
    )
    results = [_play(env_id, policy, options) for env_id in ids]
    if options.json:
        sys.stdout.write(json.dumps([result.summary() for result in results], indent=2) + "\n")
    else:
        Console().print(_table(results))
    return 0


def _chosen(options: argparse.Namespace) -> list[str]:
    """Return the environments to play, which are known before a model is loaded."""
    if not options.suite:
        if options.only:
            raise ConfigError("--only chooses among the environments of --suite")
        try:
            gym.spec(options.env)
        except gym.error.Error as error:
            raise ConfigError(f"there is no environment {options.env!r}: {error}") from error
        return [options.env]
    parts = options.only or [""]
    ids = [row.id for row in ENVS if any(part in row.id for part in parts)]
    if not ids:
        raise ConfigError(f"no environment of the suite has {' or '.join(parts)} in its id")
    return ids


def _play(env_id: str, policy: LLMPolicy, options: argparse.Namespace) -> Evaluation:
    records = None
    if options.out:
        name = env_id.replace("/", "_") + ".jsonl"
        Path(options.out).mkdir(parents=True, exist_ok=True)
        records = str(Path(options.out) / name)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(env_id, total=options.episodes)
        return rollout(
            env_id,
            policy,
            options.episodes,
            num_envs=options.num_envs,
            seed=options.seed,
            split=options.split,
            records=records,
            on_end=lambda ended: bar.update(task, completed=ended),
            workers=options.workers,
            env_kwargs={"rules": "system", **settings(options.set)}
            if env_id.startswith("llm_gym/")
            else settings(options.set),
        )


def _table(results: list[Evaluation]) -> Table:
    caption = "scale: 0 is a random player, 1 the solver"
    table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    for name in (
        "environment",
        "success",
        "95 %",
        "scale",
        "turns",
        "unusable",
        "tokens/s",
    ):
        first = name == "environment"
        # An id that is cut short is no id; the figures may wrap instead.
        table.add_column(name, justify="left" if first else "right", no_wrap=first)
    for result in results:
        low, high = result.interval
        scale = "-" if result.normalised is None else f"{result.normalised:.2f}"
        table.add_row(
            str(result.env_id),
            f"{result.success:.1%}",
            f"{low:.0%}-{high:.0%}",
            scale,
            f"{result.mean_turns:.1f}",
            f"{result.invalid:.1%}",
            f"{result.tokens / max(result.seconds, 1e-9):,.0f}",
        )
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llm-gym eval",
        description="Let a model play, and report success with its 95 % interval.",
    )
    parser.add_argument("env", nargs="?", help="an id such as llm_gym/TextGame-v0")
    parser.add_argument("--suite", action="store_true", help="play every environment of the suite")
    parser.add_argument("--only", nargs="+", metavar="PART", help="those with this in their id")
    parser.add_argument("--model", required=True, help="a model folder or hub name")
    parser.add_argument("--engine", choices=BACKENDS, default="transformers")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--num-envs", type=int, default=32, help="episodes played side by side")
    parser.add_argument("--split", choices=("train", "dev", "test"))
    parser.add_argument("--seed", type=int, default=0, help="seed of the first episode")
    parser.add_argument("--max-tokens", type=int, default=64, help="most tokens of a reply")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--context", choices=("history", "observation"), default="history")
    parser.add_argument(
        "--system-prompt", help='told instead of the rules; "" for a model that was trained without'
    )
    parser.add_argument("--workers", type=int, default=0, help="processes for slow environments")
    parser.add_argument("--out", metavar="FOLDER", help="write the episodes there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings(parser)
    return parser
