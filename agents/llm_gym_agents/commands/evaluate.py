"""``llm-gym eval``: let a model play an environment, or the whole suite, and say how it went."""

from __future__ import annotations

import argparse
import re
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from llm_gym.cli import served
from llm_gym.cli.common import build, import_modules, settings
from llm_gym.cli.evaluating import add_arguments, chosen, show
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.load import BACKENDS
from llm_gym_agents.rollouts.evaluation import Evaluation, rollout
from llm_gym_agents.rollouts.policy import LLMPolicy


def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(argv)
    if options.endpoint is not None:  # written as --endp, which only this parser understands
        return served.main(argv)
    names = chosen(options)
    import_modules(options)
    for name in names:  # known to be there before a model is loaded
        build(name, {"rules": "system", **settings(options.set)}).close()
    policy = LLMPolicy.from_pretrained(
        options.model,
        engine=options.engine,
        config=_engine_settings(options),
        context=options.context,
        sampling=Sampling(
            max_tokens=options.max_tokens, temperature=options.temperature, top_p=options.top_p
        ),
        run_seed=options.seed,
        system_prompt=options.system_prompt,
    )
    with closing(policy.engine):
        results = [_play(name, policy, options) for name in names]
    show(results, options.json)
    return 0


def _engine_settings(options: argparse.Namespace) -> dict[str, Any]:
    given = settings(options.engine_set, "--engine-set")
    if options.constrained and options.engine != "transformers":
        given.setdefault("patterns", True)
    return given


def _play(env_id: str, policy: LLMPolicy, options: argparse.Namespace) -> Evaluation:
    records = None
    if options.out:
        name = re.sub("[/:]", "_", env_id) + ".jsonl"
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
            constrained=options.constrained,
            max_turns=options.max_turns,
            env_kwargs={"rules": "system", **settings(options.set)},
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llm-gym eval",
        description="Let a model play, and report success with its 95 % interval.",
    )
    parser.add_argument("--model", required=True, help="a model folder or hub name")
    parser.add_argument(
        "--engine", choices=BACKENDS, default="transformers", help="what runs it (transformers)"
    )
    parser.add_argument(
        "--constrained",
        action="store_true",
        help="allow only moves that can be used (vllm, sglang)",
    )
    parser.add_argument(
        "--engine-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the engine, such as --engine-set max_model_len=4096 (repeatable)",
    )
    add_arguments(parser)
    parser.add_argument("--workers", type=int, default=0, help="processes for slow environments")
    parser.add_argument("--max-turns", type=int, help="replies after which an episode is cut")
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="let a model play that is served there; see llm-gym eval --endpoint URL --help",
    )
    return parser
