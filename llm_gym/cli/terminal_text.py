"""Other people's text on a terminal: what would steer it is shown instead."""

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from llm_gym.core.text import shown

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def say(text: str, *, error: bool = False) -> None:
    """Print ``text`` of whomever; every command speaks through here."""
    stream = sys.stderr if error else sys.stdout
    stream.write(shown(text, keep="\n\t") + "\n")
    stream.flush()


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings as one line each, without the path of whoever warned."""
    before, warnings.formatwarning = warnings.formatwarning, _plain
    try:
        yield
    finally:
        warnings.formatwarning = before


def _plain(message: Warning | str, *_: object, **__: object) -> str:
    r"""Return a warning as a sentence; Gymnasium colours its own.

    >>> _plain("\x1b[33mWARN: it is\nout of date\x1b[0m")
    'warning: it is out of date\n'
    """
    return f"warning: {sentence(str(message))}\n"


def sentence(text: str) -> str:
    """Return ``text`` of a library in one line, without its colours."""
    return shown(" ".join(_COLOUR.sub("", text).split()).removeprefix("WARN: "))
