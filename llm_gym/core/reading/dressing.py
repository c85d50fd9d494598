r"""What a move is dressed in: quotes, markdown, brackets, full stops, LaTeX.

Everything here takes off and never adds; what is left is what the player meant to say.
"""

from __future__ import annotations

import re

_PAIRS = dict(zip("\"'`\u201c\u2018\u00ab[(<${", "\"'`\u201d\u2019\u00bb])>$}", strict=True))
_BULLET = re.compile(r"(?:[-*\u2022>]|#{1,6}|\d{1,2}[.)])\s+(?=\S)")
_LATEX = re.compile(r"\\(?:text|textbf|mathbf|mathrm|texttt|textit)\s?\{([^{}]*)\}")
_ENDS = ".!,;: \t*_"
_ROUNDS = 8  # layers taken off: bounds what a tower of brackets costs


def undress(text: str) -> str:
    r"""Return ``text`` without what it is wrapped in.

    >>> [undress(text) for text in ('**"Right."**', "`go north`!", r"\text{7}", "[7]", "- up")]
    ['Right', 'go north', '7', '7', 'up']
    >>> undress("(1 + 2) * (3 + 4)"), undress("-13."), undress("up?")
    ('(1 + 2) * (3 + 4)', '-13', 'up?')
    """
    text = _LATEX.sub(r"\1", text).strip()
    for _ in range(_ROUNDS):
        before = text
        text = text.rstrip(_ENDS).lstrip("*_ \t")
        if found := _BULLET.match(text):
            text = text[found.end() :]
        if _is_wrapped(text):
            text = text[1:-1].strip()
        if text == before:
            break
    return text


def _is_wrapped(text: str) -> bool:
    closing = _PAIRS.get(text[:1])
    if closing is None or len(text) < 3 or text[-1] != closing:
        return False
    inside = text[1:-1]
    return closing not in inside and text[0] not in inside


def squeeze(text: str) -> str:
    """Return ``text`` as it is compared with others: small letters, single spaces, undressed.

    >>> squeeze('> "You  see: a Lamp."')
    'you see: a lamp'
    """
    return " ".join(undress(text).casefold().split())
