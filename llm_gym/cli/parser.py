"""``Parser``: errors in one sentence, and shell completion."""

import argparse
import io
import math
import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from typing import Any, NoReturn

import gymnasium as gym

from llm_gym.core.errors import ConfigError
from llm_gym.core.text import closest

_NUMBER = re.compile(r"argument (\S+): must")
_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)")


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` whose errors suggest the closest option instead of listing all."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self._reworded(message)}; see {self.prog} --help")

    def _reworded(self, message: str) -> str:
        if found := _CHOICE.fullmatch(message):
            what, given, names = found[1], found[2], found[3].replace("'", "")
            meant = closest(given, names.split(", "))
            hint = f" (did you mean {meant}?)" if meant else ""
            if what == "command":
                return f"there is no command {given!r}" + (hint or f" (there are {names})")
            return f"{what} must be one of {names}, got {given!r}{hint}"
        if message.startswith("unrecognized arguments: "):
            first = message.split()[2].partition("=")[0]
            meant = closest(first, self._option_string_actions)
            return message + (f" (did you mean {meant}?)" if meant else "")
        return _NUMBER.sub(r"\1 must", message)


def add_repeated(
    parser: argparse._ActionsContainer, flag: str, about: str, metavar: str = "NAME=VALUE"
) -> None:
    """Add an option that may be given several times and whose values become a list."""
    about = f"{about} (repeatable)"
    parser.add_argument(flag, action="append", default=[], metavar=metavar, help=about)


def whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """Return a function that parses an integer of at least ``least``.

    >>> whole(1)("0")
    Traceback (most recent call last):
        ...
    argparse.ArgumentTypeError: must be a whole number of at least 1, got '0'
    """
    return _reader(int, "a whole number", least, most)


def number(least: float, most: float = math.inf) -> Callable[[str], float]:
    """Return a function that parses a number of at least ``least``.

    >>> number(0.0)("0.5")
    0.5
    """
    return _reader(float, "a number", least, most)


def _reader(
    kind: Callable[[str], Any], what: str, least: float, most: float
) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not (least <= value <= most and math.isfinite(value)):
            end = "" if most == math.inf else f" and at most {most:g}"
            raise argparse.ArgumentTypeError(
                f"must be {what} of at least {least:g}{end}, got {text!r}"
            )
        return value

    return read


_SCRIPT = """\
# llm-gym --completion >> ~/.bashrc; zsh: autoload -U bashcompinit && bashcompinit, then the same.
_llm_gym() {{
    local words current="${{COMP_WORDS[COMP_CWORD]}}"
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    if [ "$COMP_CWORD" = 1 ]; then words="{commands}"; fi
    if [ "$COMP_CWORD" -gt 1 ] && [ "${{current#-}}" = "$current" ]; then words="{ids}"; fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _llm_gym llm-gym
"""


def completion(commands: Sequence[str], main: Callable[[list[str]], int]) -> str:
    """Return a script that completes commands, flags (as listed by ``--help``) and ids."""
    flags = {name: " ".join(_flags(name, main)) for name in commands}
    cases = "\n".join(f'        {name}) words="{flags[name]}" ;;' for name in commands)
    ids = sorted(name for name in gym.registry if name.startswith("llm_gym/"))
    return _SCRIPT.format(cases=cases, commands=" ".join(commands), ids=" ".join(ids))


def _flags(name: str, main: Callable[[list[str]], int]) -> list[str]:
    output = io.StringIO()
    for flag in ("--help", "--help-settings")[: 1 + (name == "train")]:
        with redirect_stdout(output), suppress(SystemExit, ConfigError):
            main([name, flag])
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][\w.-]*\w", output.getvalue())))
