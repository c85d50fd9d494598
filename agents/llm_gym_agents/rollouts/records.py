"""The token side of a record: what the model read and wrote in an episode, token by token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_gym.episodes import Tokens
from llm_gym_agents.rollouts.turns import Closing, Turn


def episode_tokens(
    turns: Sequence[Turn],
    closing: Closing | None = None,
    trained: Mapping[str, Sequence[float]] | None = None,
) -> Tokens:
    """Return the tokens of an episode.

    Args:
        turns: What was sampled.
        closing: What the model would have read next, where the episode was cut.
        trained: What the update made of every sampled token, as columns of ``Tokens``: ``values``,
            ``advantages``, ``ratios``. None where nobody was trained.

    >>> first = Turn(0, 0, [5, 6], [7], [-0.5], "stop", version=3)
    >>> second = Turn(0, 1, [8], [9], [-1.0], "stop", version=3)
    >>> tokens = episode_tokens([first, second], trained={"advantages": [0.25, 2.0]})
    >>> tokens.ids, tokens.turns, tokens.advantages
    ([5, 6, 7, 8, 9], [0, 0, 0, 1, 1], [nan, nan, 0.25, nan, 2.0])
    """
    sampled, ids, numbers, versions = [], [], [], []
    for turn in turns:
        read, wrote = len(turn.prompt_ids), len(turn.reply_ids)
        ids += [*turn.prompt_ids, *turn.reply_ids]
        sampled += [False] * read + [True] * wrote
        numbers += [turn.number] * (read + wrote)
        versions += [turn.version] * (read + wrote)
    if closing is not None:
        ids += closing.ids
        sampled += [False] * len(closing.ids)
        numbers += [len(turns)] * len(closing.ids)
        versions += [turns[-1].version] * len(closing.ids)
    log_probs = [one for turn in turns for one in turn.log_probs]
    given = {"log_probs": log_probs, **(trained or {})}
    columns: dict[str, Any] = {name: list(_spread(sampled, each)) for name, each in given.items()}
    return Tokens(
        ids=ids,
        trained_on=sampled if trained is not None else None,
        weights_versions=versions,
        turns=numbers,
        **columns,
    )


def _spread(sampled: Sequence[bool], values: Sequence[float]) -> Iterator[float]:
    """Yield the values at sampled tokens, and NaN at those that were read."""
    left = iter(values)
    return (next(left) if one else math.nan for one in sampled)
