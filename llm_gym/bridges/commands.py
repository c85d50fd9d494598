"""What TextWorld, Jericho and ScienceWorld have in common: commands, and files of games."""

from __future__ import annotations

from pathlib import Path

from llm_gym.errors import ConfigError

_LONGEST = 200
_SIGNS = frozenset(map(chr, range(32, 127))) - {"\\"}


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
