"""The token side of an episode: what a trainer and a viewer need beside the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from llm_gym.episodes import kinds
from llm_gym.errors import RecordError


@dataclass
class Tokens:
    """What the model read and wrote in an episode, token by token.

    Every array that is given is as long as ``ids``. Arrays and tensors may be assigned; they are
    written as lists.
    """

    ids: list[int] = field(default_factory=list)
    log_probs: list[float] | None = None
    """Of the token when it was sampled; NaN for a token that was read, not sampled."""
    values: list[float] | None = None
    """Before the update; NaN for a token that was read, here and in the next three."""
    advantages: list[float] | None = None
    ratios: list[float] | None = None
    """Probability under the weights that were trained, before their update, over that under the
    weights that sampled."""
    entropies: list[float] | None = None
    """Of the distribution at the token under the weights that were trained, before the update."""
    trained_on: list[bool] | None = None
    weights_versions: list[int] | None = None
    turns: list[int] | None = None
    """Turn that the token was read or written in; the final observation has the next number."""
    texts: list[str] | None = None
    """The token's part of the text. A character of several tokens is the last one's."""

    def to_dict(self) -> dict[str, Any]:
        """Return the arrays as JSON values, checked against each other."""
        data = kinds.write_fields(self, TOKEN_FIELDS, "tokens.")
        _check_arrays(data)
        return data

    @staticmethod
    def from_dict(data: Any) -> Tokens:
        """Return the arrays in ``data``, which ``to_dict`` made."""
        if not isinstance(data, dict):
            raise RecordError(f"tokens must be an object, got {kinds.shorten(data)}")
        tokens = Tokens(**kinds.read_fields(data, TOKEN_FIELDS, "tokens."))
        _check_arrays(vars(tokens))
        return tokens


TOKEN_FIELDS: kinds.Fields = {
    "ids": kinds.WHOLES,
    "log_probs": kinds.Maybe(kinds.NUMBERS),
    "values": kinds.Maybe(kinds.NUMBERS),
    "advantages": kinds.Maybe(kinds.NUMBERS),
    "ratios": kinds.Maybe(kinds.NUMBERS),
    "entropies": kinds.Maybe(kinds.NUMBERS),
    "trained_on": kinds.Maybe(kinds.FLAGS),
    "weights_versions": kinds.Maybe(kinds.WHOLES),
    "turns": kinds.Maybe(kinds.WHOLES),
    "texts": kinds.Maybe(kinds.TEXTS),
}
TOKENS = kinds.One("a Tokens object", lambda tokens: tokens.to_dict(), Tokens.from_dict)


def _check_arrays(arrays: Mapping[str, Any]) -> None:
    length = len(arrays["ids"])
    for name, values in arrays.items():
        if values is not None and len(values) != length:
            raise RecordError(
                f"tokens.{name} must be as long as tokens.ids, got {len(values)} for {length}"
            )
    turns = arrays["turns"] or [0]
    if turns[0] < 0 or any(turn < before for before, turn in pairwise(turns)):
        raise RecordError("tokens.turns must be whole numbers from 0 on that never go down")
