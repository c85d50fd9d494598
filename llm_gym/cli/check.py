"""``llm-gym check``: an environment keeps its contract, a parser reads replies, a sandbox holds."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_gym.cli.common import add_settings, make
from llm_gym.cli.terminal_text import say, sentence
from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.core.text import did_you_mean

if TYPE_CHECKING:
    from llm_gym.reading.parsers import Parsed
    from llm_gym.tools.registry import ToolRegistry

HELP = "check an environment, a parser of tool calls, or the sandbox"
_FIELDS = ("text", "output", "response", "completion", "content", "reply")
_SHOWN_PROBLEMS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.epilog = (
        "check ENV tests the contract of an environment; check parser FILE reads recorded replies; "
        "check sandbox tries every known way out"
    )
    parser.add_argument("what", help="module:EnvClass or a registered id; parser; or sandbox")
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        help="with parser: JSONL of strings, objects with a text, or episode records",
    )
    parser.add_argument("--parser", default="auto", help="with parser: which one (auto)")
    parser.add_argument("--field", help="with parser: key of the reply in each object")
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="NAME",
        help="with parser: a tool, or module:attribute, to check calls against (repeatable)",
    )
    parser.add_argument("--json", action="store_true", help="with parser: print JSON")
    parser.add_argument("--isolation", default="auto", help="with sandbox: which one (auto)")
    parser.add_argument(
        "--verbose", action="store_true", help="with sandbox: show how each attempt ended"
    )
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Print what was found; return 1 if something failed."""
    if (options.file is not None) != (options.what == "parser"):
        raise ConfigError(f"check parser takes a file, got {options.what!r} and {options.file}")
    if options.what == "parser":
        return _check_parser(options)
    if options.what == "sandbox":
        return _check_sandbox(options)
    options.env = options.what
    return _check_env(options)


def _choice(name: str, given: str, known: Collection[str]) -> None:
    if given not in known:
        raise ConfigError(
            f"{name} must be one of {', '.join(known)}, got {given!r}{did_you_mean(given, known)}"
        )


# --- environments ----------------------------------------------------------------------------


def _check_env(options: argparse.Namespace) -> int:
    """Print every check; return 1 if one failed."""
    from llm_gym.evaluate.checker import audit

    # Gymnasium's checker renders, and nobody wants to see windows open and close.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    checks = audit(make(options))
    for check in checks:
        if check.passed is not None:
            detail = f"\n      {sentence(check.detail)}" if check.detail else ""
            say(f"{'ok' if check.passed else 'FAIL':<6}{check.name}{detail}")
    for why in dict.fromkeys(check.detail for check in checks if check.passed is None):
        names = [check.name for check in checks if (check.passed, check.detail) == (None, why)]
        say(f"\nnot checked, {why}:")
        say("\n".join(f"      {name}" for name in names))
    failed = sum(check.passed is False for check in checks)
    skipped = sum(check.passed is None for check in checks)
    told = f"{failed or 'no'} rule{'s' * (failed != 1)} broken"
    told += f", {skipped} not checked" if skipped else ""
    say(f"\n{options.env}: {told}")
    return int(failed > 0)


# --- parsers ---------------------------------------------------------------------------------


def _check_parser(options: argparse.Namespace) -> int:
    """Print the counts and the first problems; return 1 if there was one."""
    from llm_gym.reading.parsers import PARSERS, get_parser
    from llm_gym.tools.registry import as_registry

    _choice("--parser", options.parser, PARSERS)
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
    from llm_gym.tools.schema import fit

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
    shown = problems[:_SHOWN_PROBLEMS]
    if options.json:
        data = {**counts, "tools": dict(names), "shown": shown}
        say(json.dumps(data, indent=2))
        return
    total = counts.total()
    say(f"{total} replies read as {options.parser}")
    for kind, count in counts.items():
        say(f"{kind:>10} {count:>7}  {count / total:6.1%}")
    for name, count in names.most_common(20):
        say(f"{'':>10} {count:>7}  {_printable(name)}")
    for one in shown:
        say(f"\nline {one['line']}: {_printable(one['problem'])}")
        say(f"    {_printable(one['reply'])}")
    if len(problems) > len(shown):
        say(f"\n{len(problems) - len(shown)} more")


def _printable(text: str) -> str:
    return " ".join(text.split())[:200]


# --- the sandbox -----------------------------------------------------------------------------


def _check_sandbox(options: argparse.Namespace) -> int:
    """Print what was found; return 1 if something got out."""
    from llm_gym.tools.sandbox import Sandbox, check
    from llm_gym.tools.sandbox.sandbox import ISOLATIONS

    # Without isolation every probe succeeds.
    _choice("--isolation", options.isolation, [name for name in ISOLATIONS if name != "none"])
    with Sandbox(isolation=options.isolation) as sandbox:
        findings = check.check_isolation(sandbox)
        landlock = f" and Landlock {sandbox.landlock}" if sandbox.landlock else ""
        say(f"isolated by {sandbox.mechanism}, seccomp, rlimits{landlock}")
    for finding in findings:
        if options.verbose or not finding.contained:
            mark = "held" if finding.contained else "ESCAPED"
            note = "" if finding.counted else " (not counted: it fails without isolation too)"
            say(f"{mark:<9}{finding.name}: {finding.detail}{note}")
    counted = [finding for finding in findings if finding.counted]
    held = sum(finding.contained for finding in counted)
    say(f"{held} of {len(counted)} ways out that work without isolation were closed")
    return int(not all(finding.contained for finding in findings))
