"""What a server's answers say. A server is a stranger: whatever has another shape is a ValueError.

An id or a log-prob that is not what it seems would be trained on without a word, so each is looked
at: ids are whole numbers of the vocabulary, no more of them than were asked for, and log-probs are
finite and not above 0.
"""

from __future__ import annotations

import sys
from typing import Any

_SLACK = 1e-3
"""How far above 0 rounding may put the log-prob of a token that is certain."""
_LEAST = -sys.float_info.max


def read_reply(answer: Any, vocabulary: int, most: int) -> tuple[str, str, list[int], list[float]]:
    """Return how a reply ended, what the server says about that, its ids and their log-probs.

    Args:
        answer: As it came.
        vocabulary: Size of the vocabulary.
        most: Tokens that were asked for.
    """
    about = _row(_row(answer, "an answer").get("meta_info"), "meta_info")
    finish = _row(about.get("finish_reason"), "finish_reason")
    kind = finish.get("type")
    if not isinstance(kind, str):
        raise ValueError("a reply without a way to end")
    if kind == "abort":  # of such a one nothing else is of interest
        return kind, str(finish.get("message")), [], []
    ids, log_probs = _tokens(about.get("output_token_logprobs"), vocabulary)
    if len(ids) > most:
        raise ValueError(f"{len(ids)} tokens where {most} were asked for")
    return kind, str(finish.get("message")), ids, log_probs


def read_scores(answer: Any, count: int, vocabulary: int) -> list[float]:
    """Return the log-probs of a prompt of ``count`` tokens, of all but its first."""
    about = _row(_row(answer, "an answer").get("meta_info"), "meta_info")
    rows = _rows(about.get("input_token_logprobs"))
    if len(rows) != count:
        raise ValueError(f"scores of {len(rows)} tokens where {count} were asked for")
    return _tokens(rows[1:], vocabulary)[1]


def read_marks(answer: Any) -> dict[str, str]:
    """Return the hash of each weight, of all ranks together."""
    ranks = _rows(_row(answer, "an answer").get("ranks"))
    sums = [_row(_row(rank, "a rank").get("checksums"), "checksums") for rank in ranks]
    if not sums or not sums[0]:
        raise ValueError("no checksums")
    return {str(name): " ".join(str(each.get(name)) for each in sums) for name in sums[0]}


def _tokens(rows: Any, vocabulary: int) -> tuple[list[int], list[float]]:
    pairs = [(row[0], row[1]) for row in _rows(rows) if len(_rows(row)) >= 2]
    if len(pairs) != len(rows):
        raise ValueError("a token without id and log-prob")
    for log_prob, id in pairs:
        if type(id) is not int or not 0 <= id < vocabulary:
            raise ValueError(f"{id!r:.40} is no token id")
        if type(log_prob) not in (int, float) or not _LEAST <= log_prob <= _SLACK:
            raise ValueError(f"{log_prob!r:.40} is no log-prob")
    return [id for _, id in pairs], [float(log_prob) for log_prob, _ in pairs]


def _row(value: Any, what: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} that is no object")
    return value


def _rows(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("no list where one must be")
    return value
