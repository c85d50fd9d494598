"""What ``llm-gym eval`` asks and shows, whether the model is loaded here or served elsewhere."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from llm_gym.cli.common import add_settings
from llm_gym.cli.parser import number, whole
from llm_gym.core.outcome import StopReason
from llm_gym.endpoint import ServedEvaluation
from llm_gym.errors import ConfigError
from llm_gym.evaluate.result import Evaluation
from llm_gym.registry.suite import ENVS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that both kinds of model have."""
    parser.add_argument(
        "env", nargs="?", help="an id such as llm_gym/TextGame-v0 or CartPole-v1, or module:Class"
    )
    parser.add_argument("--suite", action="store_true", help="play every environment of the suite")
    parser.add_argument("--only", nargs="+", metavar="PART", help="those with this in their id")
    parser.add_argument("--episodes", type=whole(1), default=100, help="of each environment (100)")
    parser.add_argument("--num-envs", type=whole(1), default=32, help="episodes side by side (32)")
    parser.add_argument(
        "--split", choices=("train", "dev", "test"), help="which instances (default: all)"
    )
    parser.add_argument("--seed", type=whole(0), default=0, help="seed of the first episode (0)")
    parser.add_argument(
        "--max-tokens", type=whole(1), default=64, help="most tokens of a reply (64)"
    )
    parser.add_argument(
        "--temperature", type=number(0), default=0.0, help="0, the default, is greedy"
    )
    parser.add_argument(
        "--top-p", type=number(1e-6, 1), default=1.0, help="nucleus sampling (1: off)"
    )
    parser.add_argument(
        "--context",
        choices=("history", "observation"),
        default="history",
        help="what is read: the whole episode (default), or the last observation alone",
    )
    parser.add_argument(
        "--system-prompt", help='told instead of the rules; "" for a model that was trained without'
    )
    parser.add_argument("--out", metavar="FOLDER", help="write the episodes there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings(parser)


def chosen(options: argparse.Namespace) -> list[str]:
    """Return what to play as it was named: one environment, or some of the suite."""
    if (options.env is None) == (not options.suite):
        raise ConfigError("name one environment, or pass --suite for all of them")
    if not options.suite:
        if options.only:
            raise ConfigError("--only chooses among the environments of --suite")
        return [options.env]
    parts = options.only or [""]
    ids = [row.id for row in ENVS if any(part in row.id for part in parts)]
    if not ids:
        raise ConfigError(f"no environment of the suite has {' or '.join(parts)} in its id")
    return ids


def show(results: Sequence[Evaluation], as_json: bool) -> int:
    """Print how it went, for people or for programs; return 1 if nothing could be played."""
    if as_json:
        text = json.dumps([result.summary() for result in results], indent=2)
    else:
        text = table(results)
        if any(result.normalised is not None for result in results):
            text += "\nscale: 0 is a random player, 1 the solver"
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    for result in results:
        for note in result.notes():
            sys.stderr.write(f"{result.env_id}: {note}\n")
    failed = StopReason.ERROR
    return int(all(each.stop_reason == failed for result in results for each in result.episodes))


def table(results: Sequence[Evaluation]) -> str:
    """Return the figures in columns, as wide as they need to be."""
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
    low, high = result.interval
    cells = {
        "environment": str(result.env_id),
        "success": f"{result.success:.1%}",
        "95 %": f"{low:.0%}-{high:.0%}",
        "scale": "-" if result.normalised is None else f"{round(result.normalised, 2) + 0.0:.2f}",
        "return": f"{result.mean_return:.3g}",
        "turns": f"{result.mean_turns:.1f}",
        "unusable": f"{result.invalid:.1%}",
        "tokens/s": f"{result.tokens / max(result.seconds, 1e-9):,.0f}",
    }
    if isinstance(result, ServedEvaluation):
        cells["read"] = f"{result.usage.tokens_in:,}"
        cells["written"] = f"{result.usage.tokens_out:,}"
        if result.cost is not None:
            cells["cost"] = f"{result.cost:.2f}" if result.cost >= 1 else f"{result.cost:.4f}"
    return cells
