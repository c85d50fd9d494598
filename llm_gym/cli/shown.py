"""Text of others, on a terminal: what would steer it is shown instead."""

from __future__ import annotations

import unicodedata

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
