"""One reply while it is being sampled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from llm_gym_agents.engines.base import Completion, FinishReason, Request

_BYTES_PER_CHARACTER = 4
_MARGIN = 8


class Decodes(Protocol):
    """The part of a tokenizer that stop strings need."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> Any:
        """Return the text of ``token_ids``; transformers says that it may be a list of texts."""
        ...


class StopStrings:
    """Looks for strings at the end of a growing reply."""

    def __init__(self, tokenizer: Decodes, strings: tuple[str, ...]) -> None:
        self._tokenizer, self._strings = tokenizer, strings
        # A token is a byte at least. The margin is for tokenizers that treat a first token apart.
        longest = max(map(len, strings))
        self._window = longest * _BYTES_PER_CHARACTER + _MARGIN

    def found_in(self, ids: list[int]) -> bool:
        """Return whether one of the strings ends in the last id."""
        text = self._tokenizer.decode(ids[-self._window :], skip_special_tokens=False)
        return any(string in text for string in self._strings)


@dataclass(slots=True, eq=False)
class Row:
    """A request, and what has been sampled for it."""

    request: Request
    prompt: list[int]
    limit: int
    """Most ids that the reply may have."""
    ends: frozenset[int]
    strings: StopStrings | None
    version: int
    ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish: FinishReason = FinishReason.CANCELLED

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
        """Tokens whose keys and values are known: all but the one sampled last."""
        return len(self.prompt) + len(self.ids) - 1

    def completion(self) -> Completion:
        """Return the reply as far as it got."""
        return Completion(self.ids, self.log_probs, self.finish, self.version, self.request.key)
