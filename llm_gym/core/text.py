"""Text for people: shorten it, make it safe for a terminal, suggest the name that was meant."""

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def closest(given: object, known: Iterable[str]) -> str:
    """Return the name in ``known`` that is most similar to ``given``, or "" if none is close.

    >>> closest("learning_rat", ["learning_rate", "gamma"]), closest("x", ["gamma"])
    ('learning_rate', '')
    """
    return next(iter(get_close_matches(str(given), list(known), n=1)), "")


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return "did you mean" with the closest name in ``known``, or "" if none is close.

    >>> did_you_mean("learning_rat", ["learning_rate", "gamma"])
    " (did you mean 'learning_rate'?)"
    """
    meant = closest(given, known)
    return f" (did you mean {meant!r}?)" if meant else ""


def wrong_setting(error: BaseException) -> str:
    """Return the name of an unexpected argument from the message of Python or ours, or "".

    >>> wrong_setting(TypeError("Maze.__init__() got an unexpected keyword argument 'size'"))
    'size'
    """
    found = re.search(r"(?:unexpected keyword argument|has no setting) '(\w+)'", str(error))
    return found[1] if found else ""


def no_setting(wrong: str, known: Iterable[str]) -> str:
    """Return that there is no setting ``wrong``, and which ones are known."""
    if meant := closest(wrong, known):
        return f"has no setting {wrong!r}; did you mean {meant!r}?"
    return f"has no setting {wrong!r}" + (f"; it has {', '.join(sorted(known))}" if known else "")


def clip(text: str, longest: int) -> str:
    """Return ``text``; if it is too long, cut its end and mark the cut.

    >>> clip("a long story", 10)
    'a long ...'
    """
    return text if len(text) <= longest else f"{text[: longest - 4]} ..."


def shown(text: str, keep: str = "") -> str:
    r"""Return ``text`` with its control characters escaped, except those in ``keep``.

    An escape sequence in untrusted text could clear the screen, rename the window or make the
    terminal type input.

    >>> shown("\x1b[2J\x07 \u202eevil\n")
    '\\x1b[2J\\x07 \\u202eevil\\n'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        ascii(sign)[1:-1] if unicodedata.category(sign) in _HIDDEN and sign not in keep else sign
        for sign in text
    )
