"""A text that is no longer than somebody wants to read."""

from __future__ import annotations


def clip(text: str, longest: int) -> str:
    """Return ``text``, with its end cut off and the cut marked where it is too long.

    >>> clip("a long story", 10)
    'a long ...'
    """
    return text if len(text) <= longest else f"{text[: longest - 4]} ..."
