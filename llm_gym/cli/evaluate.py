"""``llm-gym eval``: a model plays, loaded locally (needs the trainer) or behind an endpoint."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_gym.cli.common import add_settings, build, check_model_path, import_modules, settings
from llm_gym.cli.parser import Parser, add_repeated, number, whole
from llm_gym.cli.terminal_text import say
from llm_gym.core.errors import ConfigError, require_package
from llm_gym.core.infos import find_attribute
from llm_gym.core.outcome import StopReason
from llm_gym.core.text import did_you_mean
from llm_gym.registry.lookup import find_spec
from llm_gym.registry.suite import ENVS, word_hint
from llm_gym.registry.user_code import close_user_env

if TYPE_CHECKING:
    from llm_gym.evaluate.endpoint import ServedEvaluation
    from llm_gym.evaluate.result import Evaluation


_ENGINES = ("transformers", "vllm", "sglang")
_LOADED = ("credit", "engine", "engine_set", "constrained", "workers")
_SERVED = ("key_env", "body")
"""Options that have an effect only for a model that is loaded here, or for one that is served."""


def main(argv: list[str], play_local: Callable[[list[str]], int]) -> int:
    """Run the command; ``play_local`` is the trainer's command, for a local model."""
    parser = eval_parser()
    options = parser.parse_args(argv)
    if options.model is None:
        if Path(options.env or "", "config.json").is_file():
            raise ConfigError(f"say which model plays; did you mean --model {options.env}?")
        raise ConfigError(
            "say who plays: --model FOLDER, or --endpoint URL --model NAME; the scores of built-in "
            "players: llm-gym list"
        )
    served = options.endpoint is not None
    for name in _LOADED if served else _SERVED:
        if getattr(options, name) != parser.get_default(name):
            needs = "a model that is loaded here, not --endpoint" if served else "--endpoint"
            raise ConfigError(f"--{name.replace('_', '-')} needs {needs}")
    if served:
        return _play_served(options)
    _check_engine(options)
    if options.env is not None or options.suite is not None:
        import_modules(options)
        for name in chosen(options):
            find_spec(name)
        check_model_path(options.model)
    elif not Path(options.model, "config.json").is_file():
        raise ConfigError(
            f"name an environment, or pass --suite; there is no run in the folder {options.model!r}"
        )
    return play_local(argv)


def _check_engine(options: argparse.Namespace) -> None:
    """Raise if the engine is unknown or not installed, before torch is imported."""
    name = options.engine
    if name not in _ENGINES and ":" not in name:
        meant = did_you_mean(name, _ENGINES)
        raise ConfigError(
            f"--engine must be one of {', '.join(_ENGINES)}, or module:Class, got {name!r}{meant}"
        )
    is_elsewhere = "url" in settings(options.engine_set, "--engine-set")
    if name in _ENGINES[1:] and not is_elsewhere:
        require_package(name, f"--engine {name}")


def eval_parser() -> Parser:
    """Return the options of ``llm-gym eval``."""
    parser = Parser(
        prog="llm-gym eval",
        description="Let a model play, and report success with its 95 % interval.",
        epilog="With --endpoint the API key is read from the environment variable "
        "LLM_GYM_API_KEY, for OpenAI itself also from OPENAI_API_KEY.",
    )
    parser.add_argument(
        "env", nargs="?", help="an id such as llm_gym/TextGame-v0 or CartPole-v1, or module:Class"
    )
    parser.add_argument(
        "--model",
        help="folder of a model or a run, hub name, or with --endpoint the served name",
    )
    parser.add_argument(
        "--suite", nargs="*", metavar="PART", help="play the suite, or ids with PART"
    )
    parser.add_argument("--episodes", type=whole(1), default=100, help="per environment (100)")
    parser.add_argument("--num-envs", type=whole(1), default=32, help="episodes in parallel (32)")
    parser.add_argument(
        "--split", choices=("train", "dev", "test"), help="split of the instances (default: all)"
    )
    parser.add_argument("--seed", type=whole(0), default=0, help="seed of the first episode (0)")
    parser.add_argument("--max-turns", type=whole(1), help="maximum replies of an episode")
    parser.add_argument("--out", metavar="FOLDER", help="write the episodes to FOLDER")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--credit",
        type=whole(2),
        nargs="?",
        const=16,
        metavar="K",
        help="compare advantage estimators with K branches from each state (16)",
    )
    add_settings(parser)
    _add_sampling_options(parser)
    _add_local_options(parser)
    _add_endpoint_options(parser)
    return parser


def _add_sampling_options(parser: Parser) -> None:
    group = parser.add_argument_group("prompts and sampling")
    group.add_argument(
        "--max-tokens", type=whole(1), help="maximum tokens of a reply (64; 1024 with reasoning)"
    )
    group.add_argument(
        "--temperature", type=number(0), default=0.0, help="sampling temperature (0: greedy)"
    )
    group.add_argument(
        "--top-p", type=number(1e-6, 1), default=1.0, help="nucleus sampling (1: off)"
    )
    group.add_argument(
        "--context",
        choices=("history", "verbatim", "observation"),
        default="history",
        help="what the model reads: the whole episode (history, the default), the episode with "
        "earlier reasoning (verbatim), or only the current observation",
    )
    group.add_argument(
        "--system-prompt", help='replaces the rules; "" for a model trained without them'
    )
    about = "a variable of the chat template, such as --template-set enable_thinking=false"
    add_repeated(group, "--template-set", about)
    add_repeated(group, "--stop", "text that ends a reply", "TEXT")


def _add_local_options(parser: Parser) -> None:
    group = parser.add_argument_group("a local model")
    group.add_argument(
        "--engine",
        default="transformers",
        help="transformers (default), vllm, sglang, or module:Class",
    )
    about = "a setting of the engine, such as --engine-set max_model_len=4096"
    add_repeated(group, "--engine-set", about)
    group.add_argument(
        "--constrained",
        action="store_true",
        help="constrain decoding to legal moves (vllm, sglang)",
    )
    group.add_argument(
        "--workers", type=whole(0), default=0, help="worker processes for slow games"
    )


def _add_endpoint_options(parser: Parser) -> None:
    group = parser.add_argument_group("a model behind an endpoint")
    group.add_argument("--endpoint", metavar="URL", help="the API: http://127.0.0.1:8000/v1")
    group.add_argument("--key-env", metavar="NAME", help="environment variable with the API key")
    about = "a field of every request, such as --body reasoning_effort=low; null removes a field"
    add_repeated(group, "--body", about)


def _play_served(options: argparse.Namespace) -> int:
    from llm_gym.evaluate.endpoint import EndpointError, Interrupted
    from llm_gym.evaluate.endpoint.http import split_url

    split_url(options.endpoint, "--endpoint must be like http://127.0.0.1:8000/v1")
    names = chosen(options)
    import_modules(options)
    splits = check_envs(dict.fromkeys(names, settings(options.set)), options)
    results: list[ServedEvaluation] = []
    try:
        for name in names:
            results.append(_play(name, options, splits[name]))
    except (EndpointError, Interrupted) as error:
        if error.result is not None:
            results.append(error.result)
        if results:
            show(results, options.json)
        raise
    return show(results, options.json)


def _play(name: str, options: argparse.Namespace, split: str | None) -> ServedEvaluation:
    from llm_gym.evaluate.endpoint import play

    file = Path(options.out, f"{re.sub('[/:]', '_', name)}.jsonl") if options.out else None
    return play(
        name,
        options.endpoint,
        options.model,
        options.episodes,
        num_envs=options.num_envs,
        seed=options.seed,
        split=split,
        context=options.context,
        system_prompt=options.system_prompt,
        max_turns=options.max_turns,
        records=file,
        on_end=_progress(name, options.episodes),
        env_kwargs=settings(options.set),
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        top_p=options.top_p,
        body=_body(options),
        key_env=options.key_env,
    )


def _body(options: argparse.Namespace) -> dict[str, Any]:
    """Return extra fields of a request; ``chat_template_kwargs`` is for vLLM and SGLang."""
    template = settings(options.template_set, "--template-set")
    body = {"stop": options.stop, "chat_template_kwargs": template}
    body = {name: value for name, value in body.items() if value}
    return body | settings(options.body, "--body")


def _progress(name: str, episodes: int) -> Callable[[int], None] | None:
    if not sys.stderr.isatty():
        return None

    def show(ended: int) -> None:
        text = f"\r{name}: {ended} of {episodes} episodes"
        sys.stderr.write(text if ended < episodes else f"\r{' ' * len(text)}\r")
        sys.stderr.flush()

    return show


def chosen(options: argparse.Namespace) -> list[str]:
    """Return the ids to play: one environment, or a part of the suite."""
    if (options.env is None) == (options.suite is None):
        raise ConfigError("name one environment, or pass --suite for all of them")
    if options.suite is None:
        return [options.env]
    parts = options.suite or [""]
    ids = [row.id for row in ENVS if any(part.lower() in row.id.lower() for part in parts)]
    if not ids:
        hint = word_hint(*parts) or "; llm-gym list shows the ids"
        raise ConfigError(f"no environment of the suite has {' or '.join(parts)} in its id{hint}")
    return ids


def check_envs(
    given: Mapping[str, dict[str, Any]], options: argparse.Namespace
) -> dict[str, str | None]:
    """Build each environment once; return the split that each is played with.

    This finds wrong settings before a model is loaded or called. If several environments are
    played, those without splits ignore the split.
    """
    found: dict[str, str | None] = {}
    for name, own in given.items():
        env = build(name, {"rules": "system", **own})
        whole_only = options.split is not None and find_attribute(env, "has_splits") is False
        close_user_env(env)
        if whole_only and len(given) == 1:
            raise ConfigError(f"--split: {name} has too few instances for splits; leave it out")
        found[name] = None if whole_only else options.split
    return found


def show(results: Sequence[Evaluation], as_json: bool) -> int:
    """Print the results as a table or JSON; return 1 if every episode failed."""
    if as_json:
        text = json.dumps([result.summary() for result in results], indent=2)
    else:
        text = table(results)
        if any(result.normalised is not None for result in results):
            text += "\nscale: 0 is a random player, 1 the solver"
    say(text)
    for result in results:
        for note in result.notes():
            say(f"{result.env_id}: {note}", error=True)
    reasons = {episode.stop_reason for result in results for episode in result.episodes}
    return int(reasons <= {StopReason.ERROR})


def table(results: Sequence[Evaluation]) -> str:
    """Return the results as a table with aligned columns."""
    rows = [_cells(result) for result in results]
    names = list(dict.fromkeys(name for row in rows for name in row))
    widths = [max(len(name), *(len(row.get(name, "")) for row in rows)) for name in names]
    lines = [names, *([row.get(name, "") for name in names] for row in rows)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _cells(result: Evaluation) -> dict[str, str]:
    from llm_gym.evaluate.endpoint import ServedEvaluation

    low, high = result.interval
    cells = {
        "environment": str(result.env_id),
        "success": f"{result.success:.1%}",
        "95 %": f"{low:.0%}-{high:.0%}",
        "scale": "-" if result.normalised is None else f"{round(result.normalised, 2) + 0.0:.2f}",
        "return": f"{result.mean_return:.3g}",
        "turns": f"{result.mean_turns:.1f}",
        "unusable": f"{result.invalid:.1%}",
        "cut": f"{result.cut:.1%}",
        "empty": f"{result.empty:.1%}",
        "tokens/s": f"{result.tokens / max(result.seconds, 1e-9):,.0f}",
    }
    if isinstance(result, ServedEvaluation):
        cells["read"] = f"{result.usage.tokens_in:,}"
        cells["written"] = f"{result.usage.tokens_out:,}"
    return cells
