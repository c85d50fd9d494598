"""Helpers of all engines: checks of requests, end ids, stop strings, ``Row``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import Completion, Engine, FinishReason, Request

_ESCAPED_FOR_RE = " #&~\t\n\r\v\f"


def check_prompt(prompt: Sequence[int], context_length: int, vocabulary: int) -> int:
    """Return the maximum reply length after ``prompt``; refuse a prompt that leaves no room."""
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
    r"""Return ``pattern`` without the unnecessary escapes of ``re.escape``.

    Grammar compilers print a warning about each of them.

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
        eos = getattr(owner, "eos_token_id", None)
        if eos is not None:
            found.update([eos] if isinstance(eos, int) else eos)
    return found


_BYTES_PER_CHARACTER = 4
_MARGIN = 8


class StopStrings:
    """Finds stop strings at the end of a growing reply."""

    def __init__(self, tokenizer: Any, strings: tuple[str, ...]) -> None:
        self._tokenizer, self._strings = tokenizer, strings
        # A token is a byte at least. The margin is for tokenizers that treat a first token apart.
        longest = max(map(len, strings))
        self._window = longest * _BYTES_PER_CHARACTER + _MARGIN

    def found_in(self, ids: list[int]) -> bool:
        text = self._tokenizer.decode(ids[-self._window :], skip_special_tokens=False)
        return any(string in text for string in self._strings)


@dataclass(slots=True, eq=False)
class Row:
    """A request and its reply so far."""

    request: Request
    prompt: list[int]
    limit: int
    """Maximum ids of the reply."""
    ends: frozenset[int]
    strings: StopStrings | None
    version: int
    ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish: FinishReason = FinishReason.CANCELLED

    @classmethod
    def of(cls, request: Request, engine: Engine, vocabulary: int) -> Row:
        """Check a request to ``engine`` and return its empty row."""
        sampling, strings = request.sampling, None
        room = check_prompt(request.prompt, engine.context_length, vocabulary)
        if sampling.stop_strings:
            if engine.tokenizer is None:
                name = type(engine).__name__
                raise ConfigError(f"stop_strings need a tokenizer; pass one to {name}")
            strings = StopStrings(engine.tokenizer, sampling.stop_strings)
        ends, limit = engine.end_ids.union(sampling.stop_ids), min(sampling.max_tokens, room)
        return cls(request, list(request.prompt), limit, ends, strings, engine.version)

    def take(self, token: int, log_prob: float) -> bool:
        """Append a token; return whether the reply is complete."""
        self.ids.append(token)
        self.log_probs.append(log_prob)
        if token in self.ends or (self.strings is not None and self.strings.found_in(self.ids)):
            self.finish = FinishReason.STOP
        elif len(self.ids) == self.limit:
            self.finish = FinishReason.LENGTH
        else:
            return False
        return True

    @property
    def cached(self) -> int:
        """Tokens in the KV cache: all but the last sampled one."""
        return len(self.prompt) + len(self.ids) - 1

    def completion(self) -> Completion:
        return Completion(self.ids, self.log_probs, self.finish, self.version, self.request.key)
