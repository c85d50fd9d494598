"""The ``llm-gym`` command.

The core has ``list``, ``play`` and ``check``. Other packages, the trainer among them, add commands
through the entry-point group ``llm_gym.commands``: a function that takes the arguments after the
command's name and returns an exit code. It is imported only when called, so the core stays light.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points

from llm_gym import __version__
from llm_gym.cli import check, listing, play
from llm_gym.errors import LLMGymError

GROUP = "llm_gym.commands"
_BUILT_IN = {"list": listing, "play": play, "check": check}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    added = {entry.name: entry for entry in entry_points(group=GROUP)}
    try:
        if arguments and arguments[0] in added and arguments[0] not in _BUILT_IN:
            command: Callable[[list[str]], int] = added[arguments[0]].load()
            return command(arguments[1:])
        options = _parser(added).parse_args(arguments or ["--help"])
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except LLMGymError as error:
        sys.stderr.write(f"llm-gym: {error}\n")
        return 2
    except (KeyboardInterrupt, BrokenPipeError):
        return 130


def _parser(added: dict[str, EntryPoint]) -> argparse.ArgumentParser:
    more = "".join(f"\n  {name:<10} (from {entry.module})" for name, entry in added.items())
    parser = argparse.ArgumentParser(
        prog="llm-gym",
        description="Gymnasium for language models.",
        epilog=f"commands of other packages:{more}" if more else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"llm-gym {__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    for name, module in _BUILT_IN.items():
        sub = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser
