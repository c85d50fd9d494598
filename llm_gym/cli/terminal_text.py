"""Other people's text on a terminal: what would steer it is shown instead."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def shown(text: str, keep: str = "") -> str:
    r"""Return ``text`` with its control characters written out, those in ``keep`` excepted.

    An escape sequence from a stranger could clear the screen, rename the window or have the
    terminal type an answer.

    >>> shown("\x1b[2J\x07 \u202eevil\n")
    '\\x1b[2J\\x07 \\u202eevil\\n'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        ascii(sign)[1:-1] if unicodedata.category(sign) in _HIDDEN and sign not in keep else sign
        for sign in text
    )


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
