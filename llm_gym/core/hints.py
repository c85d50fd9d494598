"""Did you mean …? The known name that is most like the one that was given."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(given: object, known: Iterable[str]) -> str:
    """Return the one of ``known`` that is most like ``given``, or nothing where none is.

    >>> closest("learning_rat", ["learning_rate", "gamma"]), closest("x", ["gamma"])
    ('learning_rate', '')
    """
    return next(iter(get_close_matches(str(given), list(known), n=1)), "")


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return a question with the closest of ``known``, or nothing where none is close.

    >>> did_you_mean("learning_rat", ["learning_rate", "gamma"])
    " (did you mean 'learning_rate'?)"
    """
    meant = closest(given, known)
    return f" (did you mean {meant!r}?)" if meant else ""
