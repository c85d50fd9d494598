"""The ``llm-gym`` command.

The core has ``list``, ``play``, ``check``, ``check-parser``, ``replay``, ``serve`` and ``view``,
and ``eval`` for a model that is served elsewhere (``--endpoint``). Other packages, the trainer
among them, add commands through the entry-point group ``llm_gym.commands``: a function that takes
the arguments after the command's name and returns an exit code. It is imported only when called,
so the core stays light.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points

from llm_gym import __version__
from llm_gym.cli import check, check_parser, check_sandbox, listing, play, replay, serve, view
from llm_gym.cli.parser import Parser
from llm_gym.cli.terminal_text import plain_warnings, shown
from llm_gym.errors import ConfigError, LLMGymError, install_command

GROUP = "llm_gym.commands"
TRACEBACK = "LLM_GYM_TRACEBACK"
_BUILT_IN = {
    "list": listing,
    "play": play,
    "view": view,
    "replay": replay,
    "check": check,
    "serve": serve,
    "check-parser": check_parser,
    "check-sandbox": check_sandbox,
}
# Said here, because importing the trainer for a line of help would take seconds.
_TRAINERS = {
    "eval": "let a model play, here or served elsewhere, and report its success",
    "train": "train a model to play",
    "resume": "go on with a run of train",
    "watch": "see a model play, move by move",
    "warm-start": "teach a model to write moves, by imitation",
    "export": "write prompts, episodes, tools or a package for other trainers",
    "sft-data": "write episodes of a built-in player as chat messages",
}
# As one would come to need them; what other packages add comes last.
_LISTED = (
    *("list", "play", "eval", "train", "resume", "watch", "view", "replay", "check", "serve"),
    *("export", "warm-start", "sft-data", "check-parser", "check-sandbox"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    with plain_warnings():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(arguments: list[str]) -> int:
    added = {entry.name: entry for entry in entry_points(group=GROUP)}
    try:
        if _plays_served(arguments):
            from llm_gym.cli import eval_endpoint  # brings HTTP and TLS along

            return eval_endpoint.main(arguments[1:])
        typed = " ".join(arguments[:1])
        if _watches(arguments):
            typed += " --model"
            arguments[0] = "watch"  # a model needs the trainer, which the core knows by name only
        if arguments and arguments[0] in added and arguments[0] not in _BUILT_IN:
            return _load(added[arguments[0]], typed)(arguments[1:])
        options = _parser(added).parse_args(arguments or ["--help"])
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except LLMGymError as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exception(error)
        else:
            sys.stderr.write(f"llm-gym: {shown(str(error), keep=chr(10))}\n")
        return 2
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    except OSError as error:  # a disk that is full or read-only, a file that is not ours
        sys.stderr.write(f"llm-gym: {shown(str(error))}\n")
        return 2


def _plays_served(arguments: Sequence[str]) -> bool:
    """Return whether a served model is to play, which needs no trainer.

    >>> _plays_served(["eval", "llm_gym/Echo-v0", "--endpoint=http://localhost:8000"])
    True
    """
    return arguments[:1] == ["eval"] and any(
        each == "--endpoint" or each.startswith("--endpoint=") for each in arguments
    )


def _watches(arguments: Sequence[str]) -> bool:
    """Return whether a model is to play while a person looks on.

    >>> _watches(["play", "llm_gym/Echo-v0", "--model", "runs/Echo-v0"])
    True
    """
    return arguments[:1] == ["play"] and any(
        each == "--model" or each.startswith("--model=") for each in arguments
    )


def _load(entry: EntryPoint, typed: str) -> Callable[[list[str]], int]:
    try:
        command: Callable[[list[str]], int] = entry.load()
    except ModuleNotFoundError as error:
        if entry.module.partition(".")[0] != "llm_gym_agents":
            raise
        served = "; a served model plays without it: --endpoint URL" * (entry.name == "eval")
        raise ConfigError(
            f"llm-gym {typed} needs {error.name}. Install the trainer with: "
            f"{install_command('train')}{served}"
        ) from error
    return command


def _parser(added: dict[str, EntryPoint]) -> Parser:
    parser = Parser(
        prog="llm-gym",
        description="Gymnasium for language models.",
        epilog="llm-gym COMMAND --help tells more about one of them. With "
        f"{TRACEBACK}=1 in the environment an error shows its traceback.",
    )
    parser.add_argument("--version", action="version", version=f"llm-gym {__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    for name in sorted({*_BUILT_IN, *added}, key=_place):
        if module := _BUILT_IN.get(name):
            sub = commands.add_parser(name, help=module.HELP, description=module.HELP)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
        else:  # only to be listed: ``main`` has looked for it before
            help_line = _TRAINERS.get(name, f"from {added[name].module}")
            commands.add_parser(name, help=help_line)
    return parser


def _place(name: str) -> tuple[int, str]:
    """Return where the help lists a command."""
    return (_LISTED.index(name) if name in _LISTED else len(_LISTED), name)
