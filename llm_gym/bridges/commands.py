"""What TextWorld, ALFWorld, Jericho and ScienceWorld have in common: commands, and game files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Unpack

from llm_gym.bridges.base import CommonArgs, ForeignEnv, Played
from llm_gym.errors import ConfigError

_LONGEST = 200
_SIGNS = frozenset(map(chr, range(32, 127))) - {"\\"}
# They would end the game, or leave it for another one.
_ADMIN = frozenset(
    ("restart", "restore", "save", "quit", "q", "undo", "script", "transcript", "verify")
)


def clean_command(text: str) -> str:
    r"""Return ``text`` as something an interpreter written in C can be given.

    Frotz dies of a NUL byte, and the process with it; a backslash begins a command to Frotz
    itself, and one that it does not know, such as ``\boxed``, it answers for ever.

    >>> clean_command("\\boxed{open\x00 the \ud800 door\nnow}")
    'boxed{open the door now}'
    """
    kept = "".join(sign if sign in _SIGNS else " " for sign in text[: 4 * _LONGEST])
    return " ".join(kept.split())[:_LONGEST]


def find_games(given: str | list[str], suffixes: tuple[str, ...]) -> list[str]:
    """Return the files that ``given`` stands for: a file, several, or folders of them."""
    found: list[str] = []
    for path in map(Path, [given] if isinstance(given, str) else given):
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.name.endswith(suffixes))
            found += map(str, files)
        elif path.exists():
            found.append(str(path))
        else:
            raise ConfigError(f"games must be files or folders, and there is no {path}")
    if not found:
        raise ConfigError(f"games must have files that end in {', '.join(suffixes)}, got {given!r}")
    return found


class FileGames(ForeignEnv):
    """Games that are files: the seed chooses one, and it is played by commands."""

    has_splits = False
    move_name = "command"
    suffixes: tuple[str, ...] = ()
    made_by = ""
    """What the files are, for who has given none."""

    def __init__(self, games: str | list[str], **common: Unpack[CommonArgs]) -> None:
        if not games:
            raise ConfigError(f"games must name {self.made_by}, got nothing")
        self.games = find_games(games, self.suffixes)
        self.game = ""
        common.setdefault("action_format", "plain")
        super().__init__(**common)

    def begin(self, seed: int) -> str:
        """Begin the game that ``seed`` chooses."""
        self.game = self.games[seed % len(self.games)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Jericho's: it does not know every game's score
            return self.open(seed)

    def play(self, text: str) -> Played:
        """Play a command."""
        command = clean_command(text)
        if not command or command.lower() in _ADMIN:
            return Played("That is no command of the game.", valid=False)
        return self.command(command)

    def open(self, seed: int) -> str:
        """Begin ``self.game``; return what it says."""
        raise NotImplementedError

    def command(self, command: str) -> Played:
        """Play a command that can do no harm."""
        raise NotImplementedError

    def instance(self) -> object:
        """Return the file of the game."""
        return self.game
