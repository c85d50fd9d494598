"""What every engine does with a request before it samples: checks, end ids, patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from llm_gym.errors import ConfigError

_ESCAPED_FOR_RE = " #&~\t\n\r\v\f"


def check_prompt(prompt: Sequence[int], context_length: int, vocabulary: int) -> int:
    """Return how many tokens of reply ``prompt`` leaves room for; refuse one that leaves none."""
    room = context_length - len(prompt)
    if room < 1 or not len(prompt):
        raise ConfigError(
            f"a prompt must have 1 to {context_length - 1} tokens to leave room for a reply, got "
            f"{len(prompt)}"
        )
    check_ids(prompt, vocabulary)
    return room


def check_ids(ids: Sequence[int], vocabulary: int) -> None:
    """Refuse ids that the model has no embedding for."""
    if ids and not 0 <= min(ids) <= max(ids) < vocabulary:
        raise ConfigError(
            f"token ids must be in [0, {vocabulary - 1}], got {min(ids)} to {max(ids)}"
        )


def portable_pattern(pattern: str) -> str:
    r"""Return ``pattern`` without the escapes that only ``re.escape`` makes.

    Grammar compilers read them right, and print a warning about each.

    >>> print(portable_pattern(re.escape("go to #1.")))
    go to #1\.
    """
    return re.sub(
        r"\\(.)", lambda at: at[1] if at[1] in _ESCAPED_FOR_RE else at[0], pattern, flags=re.DOTALL
    )


def end_ids_of(*owners: Any) -> set[int]:
    """Return the ids that configs, generation settings and tokenizers call end of text."""
    found: set[int] = set()
    for owner in owners:
        said = getattr(owner, "eos_token_id", None)
        if said is not None:
            found.update([said] if isinstance(said, int) else said)
    return found
