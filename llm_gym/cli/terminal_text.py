"""Safe output on a terminal: control sequences are shown, not executed."""

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from llm_gym.core.text import shown

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def say(text: str, *, error: bool = False) -> None:
    """Print ``text``, from any source. Every command prints through this function."""
    stream = sys.stderr if error else sys.stdout
    stream.write(shown(text, keep="\n\t") + "\n")
    stream.flush()


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show each warning as one line, without the path of its source."""
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
