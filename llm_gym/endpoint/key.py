"""API keys: read from the environment, told to the server, shown to nobody else."""

from __future__ import annotations

import base64
import os
import re
import urllib.parse
from collections.abc import Callable
from typing import NoReturn

from llm_gym.errors import ConfigError

OWN = "LLM_GYM_API_KEY"
OPENAI = "OPENAI_API_KEY"
HIDDEN = "[key]"
_SHORTEST = 8  # what is shorter, as the EMPTY that many servers are given, is no secret but a word


class Key:
    """An API key that does not show in prints, logs, records and pickles.

    >>> key = Key("sk-0123456789", "MY_KEY")
    >>> key, key.hide('{"error": "no such key: sk-0123456789"}')
    (<key from MY_KEY>, '{"error": "no such key: [key]"}')
    """

    def __init__(self, secret: str, origin: str) -> None:
        self.origin = origin
        secret = secret.strip()
        if not re.fullmatch(r"[!-~]+", secret):  # the error of http.client would show it
            raise ConfigError(f"the key in {origin} must be of ASCII letters, digits and signs")
        pattern = _pattern(secret)
        secretive = len(secret) >= _SHORTEST
        # Closures, so that the key is in no attribute that something may print or save.
        self.headers: Callable[[], dict[str, str]] = lambda: {"Authorization": f"Bearer {secret}"}
        self.hide: Callable[[str], str] = lambda text: (
            pattern.sub(HIDDEN, text) if secretive else text
        )

    def __repr__(self) -> str:
        return f"<key from {self.origin}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled; read it from the environment on the other side")


def _pattern(secret: str) -> re.Pattern[str]:
    """Return what finds ``secret`` however its signs are escaped, also in base64."""
    spelled = "".join(map(_sign, secret))
    coded = (_in_base64(secret.encode(), shift) for shift in range(3))
    return re.compile("|".join([spelled, *(re.escape(form) for form in coded)]))


def _sign(sign: str) -> str:
    r"""Return a pattern for a sign as it is, or as JSON, Python, a URL, C or HTML may write it.

    >>> written = ["a", "\\u0061", "\\\\u0061", "\\x61", "%61", "&#97;", "&#x61;", "\\141"]
    >>> all(re.fullmatch(_sign("a"), form) for form in written)
    True
    """
    code = ord(sign)
    low = f"(?i:{code:02x})"
    forms = [
        rf"\\*{re.escape(sign)}",  # \/ and \" are that in JSON
        rf"\\+u\{{?00{low}\}}?",
        rf"\\+x{low}",
        rf"\\+0?{code:o}",
        rf"%(?:25)*{low}",
        rf"&(?:amp;)*#0*{code};",
        rf"&(?:amp;)*#[xX]0*{low};",
    ]
    return f"(?:{'|'.join(forms)})"


def _in_base64(secret: bytes, shift: int) -> str:
    """Return the part of the base64 of ``secret`` that what stands around it does not change."""
    text = base64.b64encode(b"\0" * shift + secret).decode().rstrip("=")
    return text[4 if shift else 0 : len(text) - 1]


def find_key(url: str, name: str | None = None) -> Key | None:
    """Return the key for the server at ``url``, or None where there is none.

    Args:
        url: The server. ``OPENAI_API_KEY`` goes to OpenAI by itself and nowhere else.
        name: The environment variable that holds it, instead of ``LLM_GYM_API_KEY``.
    """
    if name is not None:
        # Neither message repeats the name: it may be the key, given by mistake.
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ConfigError(
                "the key's name must be that of an environment variable, such as OPENAI_API_KEY, "
                "and never the key itself"
            )
        if not os.environ.get(name, "").strip():
            raise ConfigError("the environment variable that was named for the key is not set")
        return Key(os.environ[name], name)
    host = urllib.parse.urlsplit(url).hostname or ""
    names = (OWN, OPENAI) if host == "openai.com" or host.endswith(".openai.com") else (OWN,)
    found = next((name for name in names if os.environ.get(name, "").strip()), None)
    return None if found is None else Key(os.environ[found], found)
