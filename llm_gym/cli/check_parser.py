"""``llm-gym check-parser``: what a parser makes of recorded replies, before a run depends on it."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_gym.cli.parser import whole
from llm_gym.errors import ConfigError, RecordError
from llm_gym.parsing import PARSERS, Parsed, get_parser
from llm_gym.tools.registry import ToolRegistry, as_registry
from llm_gym.tools.schema import fit

HELP = "check a parser of tool calls against recorded replies"
_FIELDS = ("text", "output", "response", "completion", "content", "reply")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "file", type=Path, help="JSONL: strings, objects with a text, or episode records"
    )
    parser.add_argument("--parser", choices=PARSERS, default="auto", help="default: auto")
    parser.add_argument("--field", help="key of the reply in each object, if it is unusual")
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="NAME",
        help="a tool, or module:attribute, to check names and arguments against (repeatable)",
    )
    parser.add_argument("--show", type=whole(0), default=5, help="problems to print (default: 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print the counts and the first problems; return 1 if there was one."""
    sys.path.insert(0, "")  # like ``python -m``: modules beside the user are found
    parser = get_parser(options.parser)
    registry = as_registry(options.tool) if options.tool else None
    counts: Counter[str] = Counter(calls=0, answers=0, problems=0)
    names: Counter[str] = Counter()
    problems: list[dict[str, Any]] = []
    for line, reply in read_replies(options.file, options.field):
        parsed = parser.parse(reply)
        problem = parsed.problem or (_misfit(parsed, registry) if registry is not None else "")
        kind = "problems" if problem else "calls" if parsed.calls else "answers"
        counts[kind] += 1
        names.update(call.name for call in parsed.calls)
        if problem:
            problems.append({"line": line, "problem": problem, "reply": reply[:200]})
    if not counts.total():
        raise ConfigError(f"{options.file} holds no replies")
    _print(options, counts, names, problems)
    return int(bool(problems))


def read_replies(path: Path, field: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the line number and the text of every reply in a JSONL file."""
    try:
        file = path.open(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    with file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise RecordError(f"{path}, line {number}: this is not JSON: {error}") from error
            replies = _replies(value, field)
            if replies is None:
                wanted = field or f"one of {', '.join(_FIELDS)}"
                raise RecordError(
                    f"{path}, line {number}: there is no reply; it must be a string, an episode "
                    f"record, or an object with {wanted} (say which key with --field)"
                )
            yield from ((number, reply) for reply in replies)


def _replies(value: Any, field: str | None) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, dict):
        return None
    if field is None and "schema" in value and isinstance(value.get("actions"), list):
        return [action for action in value["actions"] if isinstance(action, str)]
    keys = _FIELDS if field is None else (field,)
    found = next((value[key] for key in keys if isinstance(value.get(key), str)), None)
    return None if found is None else [found]


def _misfit(parsed: Parsed, registry: ToolRegistry) -> str:
    """Return why a call does not fit the tools, or nothing."""
    for call in parsed.calls:
        if call.name not in registry:
            if parsed.answer is not None:
                continue  # a bare action, which may be a move
            return registry.unknown(call.name)
        if call.text is None:
            definition = registry.tools[call.name].definition
            if problem := fit(call.arguments, definition.parameters).problem:
                return f"{call.name}: {problem}"
    return ""


def _print(
    options: argparse.Namespace,
    counts: Counter[str],
    names: Counter[str],
    problems: list[dict[str, Any]],
) -> None:
    shown = problems[: options.show]
    if options.json:
        data = {**counts, "tools": dict(names), "shown": shown}
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
        return
    total = counts.total()
    sys.stdout.write(f"{total} replies read as {options.parser}\n")
    for kind, count in counts.items():
        sys.stdout.write(f"{kind:>10} {count:>7}  {count / total:6.1%}\n")
    for name, count in names.most_common(20):
        sys.stdout.write(f"{'':>10} {count:>7}  {_printable(name)}\n")
    for one in shown:
        sys.stdout.write(f"\nline {one['line']}: {_printable(one['problem'])}\n")
        sys.stdout.write(f"    {_printable(one['reply'])}\n")
    if len(problems) > len(shown):
        sys.stdout.write(f"\n{len(problems) - len(shown)} more; show them with --show\n")


def _printable(text: str) -> str:
    # A lone surrogate cannot be encoded for a terminal, and one line is enough.
    return " ".join(text.encode("utf-8", "replace").decode().split())[:200]
