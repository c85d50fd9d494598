"""The ``llm-gym`` command.

The core has ``list``, ``play``, ``view``, ``replay``, ``check``, ``serve`` and ``eval``. Other
packages, the trainer among them, add commands through the entry-point group ``llm_gym.commands``: a
function that takes the arguments after the command's name and returns an exit code. It is imported
only when called, so the core stays light. The trainer's ``play`` and ``eval`` run when a model must
be loaded.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from llm_gym import __version__
from llm_gym.cli.parser import Parser, completion
from llm_gym.cli.terminal_text import plain_warnings, say
from llm_gym.core.errors import ConfigError, LLMGymError, install_command

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "llm_gym.commands"
TRACEBACK = "LLM_GYM_TRACEBACK"
# Written here, because importing every command for a line of help would take long. In the order of
# first use; commands of other packages come last.
_HELP = {
    "list": "list the environments with description, turns and scores",
    "play": "play an environment in the terminal",
    "eval": "let a model play, local or behind an endpoint, and report its success",
    "train": "train a model to play",
    "resume": "resume a training run",
    "view": "look at runs and episodes in a browser, token by token",
    "replay": "play saved episodes again and report any difference",
    "check": "check an environment, the sandbox, or what is installed",
    "serve": "serve an environment over HTTP, also for OpenEnv clients",
    "export": "write data or packages for other trainers, or upload a model to a hub",
}
_BUILT_IN = _HELP.keys() - {"eval", "train", "resume", "export"}


@plain_warnings()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else ""
    try:
        if name in _BUILT_IN and not _names_model(arguments):
            return _run_built_in(name, arguments[1:])
        from importlib.metadata import entry_points  # a tenth of the time of a light command

        added = {entry.name: entry for entry in entry_points(group=GROUP)}
        if name == "--completion":
            say(completion(_names(added), main))
            return 0
        if name == "eval":
            from llm_gym.cli import evaluate

            return evaluate.main(arguments[1:], partial(_run_added, added.get(name), name))
        if _names_model(arguments):
            return _run_added(added.get(name), "play --model", arguments[1:])
        if name in _HELP.keys() | added.keys():
            return _run_added(added.get(name), name, arguments[1:])
        _parser(added).parse_args(arguments or ["--help"])  # tells what there is
        return 0
    except LLMGymError as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exception(error)
        else:
            say(f"llm-gym: {error}", error=True)
        return 2
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    except OSError as error:  # a full or read-only disk, a file without permission
        say(f"llm-gym: {error}", error=True)
        return 2


def _names_model(arguments: Sequence[str]) -> bool:
    """Return whether the command is ``play --model``, which needs the trainer.

    >>> _names_model(["play", "llm_gym/Echo-v0", "--model", "runs/Echo-v0"])
    True
    """
    named = any(each == "--model" or each.startswith("--model=") for each in arguments)
    return arguments[:1] == ["play"] and named and not {"-h", "--help"} & set(arguments)


def _run_built_in(name: str, arguments: list[str]) -> int:
    module = import_module(f"llm_gym.cli.{'listing' if name == 'list' else name}")
    parser = Parser(prog=f"llm-gym {name}", description=_HELP[name])
    module.add_arguments(parser)
    code: int = module.run(parser.parse_args(arguments))
    return code


def _run_added(entry: EntryPoint | None, typed: str, arguments: list[str]) -> int:
    """Run a command of another package; a missing package is reported in one sentence."""
    if entry is None:
        raise ConfigError(
            f"llm-gym {typed} needs the trainer. Install it with: {install_command('train')}"
        )
    try:
        run: Callable[[list[str]], int] = entry.load()
        return run(arguments)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        ours = entry.module.partition(".")[0] == "llm_gym_agents"
        if not ours or missing in ("llm_gym", "llm_gym_agents"):
            raise
        served = "; a served model plays without it: --endpoint URL" * (typed == "eval")
        raise ConfigError(
            f"llm-gym {typed} needs {error.name}. Install the trainer with: "
            f"{install_command('train')}{served}"
        ) from error


def _parser(added: dict[str, EntryPoint]) -> Parser:
    """Return the parser that lists all commands; each command has one of its own."""
    parser = Parser(
        prog="llm-gym",
        description="Gymnasium for language models.",
        epilog="llm-gym COMMAND --help explains one command. With "
        f"{TRACEBACK}=1 in the environment an error shows its traceback.",
    )
    parser.add_argument("--version", action="version", version=f"llm-gym {__version__}")
    parser.add_argument(
        "--completion", action="store_true", help="print the shell completion for bash and zsh"
    )
    commands = parser.add_subparsers(metavar="command")
    for name in _names(added):
        commands.add_parser(name, help=_HELP.get(name) or f"from {added[name].module}")
    return parser


def _names(added: Iterable[str]) -> list[str]:
    return [*_HELP, *sorted({*added} - _HELP.keys())]
