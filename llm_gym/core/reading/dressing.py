r"""What a move is dressed in: quotes, markdown, brackets, full stops, LaTeX.

Everything here takes off and never adds; what is left is what the player meant to say.
"""

from __future__ import annotations

import re
import unicodedata

_PAIRS = dict(
    zip(
        "\"'`\u201c\u2018\u00ab[(<${|\u300c\u300e\uff08\u3010\u300a",
        "\"'`\u201d\u2019\u00bb])>$}|\u300d\u300f\uff09\u3011\u300b",
        strict=True,
    )
)
_BULLET = re.compile(r"(?:[-*\u2022>]|#{1,6}|\d{1,2}[.)])\s+(?=\S)")
LISTED = re.compile(r"\s{0,8}(?:[-*\u2022+]|\d{1,2}[.)]|\(\d{1,2}\))\s+\S")
"""A line of a list."""
_STRUCK = re.compile(r"~~[^~\n]{1,200}~~")
_WIDE = str.maketrans(
    {"\uff1a": ": ", "\uff0c": ", ", "\u3002": ". ", "\uff01": "! ", "\uff1f": "? "}
)
_IDEOGRAPH = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
# Between letters of ours and of a script that is written without spaces.
_SEAM = re.compile(rf"(?<=[{_IDEOGRAPH}])(?=[0-9A-Za-z])|(?<=[0-9A-Za-z])(?=[{_IDEOGRAPH}])")
_LATEX = re.compile(r"\\(?:text\w{0,4}|math\w{2}|mathtt|[fm]box|operatorname)\s?\{([^{}]*)\}")
_MATH = re.compile(r"\\\((.*)\\\)|\\\[(.*)\\\]")
_HTML = re.compile(r"<([a-z_]{1,20})>([^<>]*)</\1>", re.IGNORECASE)
_ENDS = ".!,;: \t*_$~|\\\x00\uff0a\u2026\u3002\uff01\uff0c\u00a0\ufeff\u200b"
_FRONTS = "*_ \t$~#\x00\uff0a\u00a0\ufeff\u200b"
_SMILES = (":)", ":-)", ";)", ":D")
_ROUNDS = 8  # layers taken off: bounds what a tower of brackets costs


def undress(text: str) -> str:
    r"""Return ``text`` without what it is wrapped in.

    >>> [undress(text) for text in ('**"Right."**', "`go north`!", r"\text{7}", "[7]", "- up")]
    ['Right', 'go north', '7', '7', 'up']
    >>> undress("(1 + 2) * (3 + 4)"), undress("-13."), undress("up?")
    ('(1 + 2) * (3 + 4)', '-13', 'up?')
    """
    text = (_LATEX.sub(r"\1", text) if "\\" in text else text).strip()
    for _ in range(_ROUNDS):
        before = text
        text = text.rstrip(_ENDS).lstrip(_FRONTS)
        if found := _BULLET.match(text):
            text = text[found.end() :]
        if text[:1] in ("\\", "<") and (found := _MATH.fullmatch(text) or _HTML.fullmatch(text)):
            text = (found[found.lastindex or 0] or "").strip()
        if text.endswith(_SMILES):
            text = text[: text.rindex(text[-2:-1])]
        if not text.isascii():
            text = without_pictures(text)
        if _is_wrapped(text):
            text = text[1:-1].strip()
        if text == before:
            break
    return text


def without_pictures(text: str) -> str:
    """Return ``text`` without the pictures and invisible characters at its ends.

    A text of nothing else is left: an arrow may be a move.

    >>> without_pictures("\U0001f600 up \u200b"), without_pictures("\u2b05\ufe0f")
    ('up', '\u2b05\ufe0f')
    """
    start, end = 0, len(text)
    while end > start and _is_picture(text[end - 1]):
        end -= 1
    while end > start and _is_picture(text[start]):
        start += 1
    return text[start:end] or text


def _is_picture(char: str) -> bool:
    return char.isspace() or (
        char > "\u00ff" and unicodedata.category(char) in ("So", "Cf", "Cs", "Mn", "Sk")
    )


def _is_wrapped(text: str) -> bool:
    closing = _PAIRS.get(text[:1])
    if closing is None or len(text) < 3 or text[-1] != closing:
        return False
    inside = text[1:-1]
    return closing not in inside and text[0] not in inside


def plain_text(text: str) -> str:
    """Return ``text`` with the digits, stops and seams of other scripts as ours.

    What is struck through is taken back.

    >>> plain_text("\uff14\uff12"), plain_text("~~up~~ down"), plain_text("\u7b54\uff1aup\u3002")
    ('42', ' down', '\u7b54: up. ')
    """
    if "~~" in text:
        text = _STRUCK.sub("", text)
    if text.isascii():
        return text
    text = _SEAM.sub(" ", text.translate(_WIDE))
    return "".join(
        str(unicodedata.decimal(char)) if char > "\x7f" and char.isdecimal() else char
        for char in text
    )


def squeeze(text: str) -> str:
    """Return ``text`` as it is compared with others: small letters, single spaces, undressed.

    >>> squeeze('> "You  see: a Lamp."')
    'you see: a lamp'
    """
    return " ".join(undress(text).casefold().split())
