"""Log-probs of given tokens, without the logits of all of them at once.

Sequences of like length are read together, padded on the right: a causal model never looks there.

Shapes: B sequences of a group, T tokens, N scored tokens, C hidden channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import torch

from llm_gym_agents.engines.transformers.causal import CausalModel
from llm_gym_agents.lm.head import token_log_probs

GROUP_TOKENS = 8192
"""Tokens of one forward, padding included."""


def score(
    model: CausalModel, sequences: Sequence[Sequence[int]], temperature: float
) -> list[list[float]]:
    """Return the log-prob of every token of each sequence but the first."""
    scores: list[list[float]] = [[] for _ in sequences]
    group: list[int] = []
    with model.reading():
        for at in sorted(range(len(sequences)), key=lambda at: len(sequences[at])):
            if len(sequences[at]) < 2:
                continue
            if group and (len(group) + 1) * len(sequences[at]) > GROUP_TOKENS:
                _score_group(model, sequences, group, temperature, scores)
                group = []
            group.append(at)
        if group:
            _score_group(model, sequences, group, temperature, scores)
    return scores


def _score_group(
    model: CausalModel,
    sequences: Sequence[Sequence[int]],
    group: list[int],
    temperature: float,
    scores: list[list[float]],
) -> None:
    longest = max(len(sequences[at]) for at in group)
    padded = [
        [*sequences[at], *[sequences[at][-1]] * (longest - len(sequences[at]))] for at in group
    ]
    ids_BT = torch.tensor(padded, device=model.device)
    length_B1 = torch.tensor([[len(sequences[at])] for at in group], device=model.device)
    real_BT = torch.arange(1, longest, device=model.device) < length_B1
    # The last token predicts nothing that is asked for.
    hidden_NC = model.hidden(ids_BT[:, :-1])[real_BT]
    token_N = ids_BT[:, 1:][real_BT]
    log_prob_N, _ = token_log_probs(model.head, hidden_NC, token_N, temperature=temperature)
    found = iter(log_prob_N.tolist())
    for at in group:
        scores[at] = list(islice(found, len(sequences[at]) - 1))
