"""Slow float64 versions of the algorithms, written as loops from their definitions."""

import math
import statistics
from collections.abc import Sequence

import torch
from hypothesis import settings
from hypothesis import strategies as st

from llm_gym_agents.algo import PolicyInputs, TokenStream

Floats = Sequence[float]


def gae(rewards, values, *, gammas, lams, after):
    """Advantages of one episode; ``after`` is the value after its last token."""
    advantages = [0.0] * len(rewards)
    next_value, carried = after, 0.0
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gammas[t] * next_value - values[t]
        carried = delta + gammas[t] * lams[t] * carried
        advantages[t], next_value = carried, values[t]
    return advantages


def split(values, lengths):
    """``values`` cut into runs of ``lengths``."""
    runs, start = [], 0
    for length in lengths:
        runs.append(list(values[start : start + length]))
        start += length
    return runs


def whiten(values):
    mean = math.fsum(values) / len(values) if values else 0.0
    var = statistics.variance(values) if len(values) > 1 else 0.0
    return [(value - mean) / math.sqrt(var + 1e-8) for value in values]


def group_scores(name, scores, lengths, groups):
    """The advantage of each episode; empty episodes are in no group."""
    played = [e for e in range(len(scores)) if lengths[e] > 0]
    result = []
    for episode, score in enumerate(scores):
        mates = [e for e in played if groups[e] == groups[episode]]
        if episode not in played:
            result.append(0.0)
            continue
        alone = len(mates) == 1
        mean = math.fsum(scores[e] for e in mates) / len(mates)
        std = 1.0 if alone else statistics.stdev([scores[e] for e in mates])
        if name == "grpo":
            result.append((score - mean) / (std + 1e-6))
        elif name == "dr_grpo":
            result.append(score - mean)
        else:
            others = [scores[e] for e in mates if e != episode]
            result.append(score - math.fsum(others) / len(others) if others else 0.0)
    return result


def ppo(log_prob, old, advantage, low, high, dual):
    """The clipped loss of one token."""
    ratio = math.exp(min(max(log_prob - old, -20.0), 20.0))
    loss = max(-advantage * ratio, -advantage * min(max(ratio, 1 - low), 1 + high))
    if dual is not None and advantage < 0:
        loss = min(loss, -advantage * dual)
    return loss


def inputs_of(log_prob_T, old_T, advantages_T, lengths_E=None):
    return PolicyInputs(
        log_prob_T=log_prob_T,
        old_log_prob_T=old_T,
        advantages_T=advantages_T,
        lengths_E=torch.tensor([len(log_prob_T)]) if lengths_E is None else lengths_E,
    )


examples = settings(max_examples=25)

NUMBERS = st.floats(-5.0, 5.0, width=32)
FRACTIONS = st.sampled_from([0.0, 0.3, 0.95, 1.0])


@st.composite
def streams(draw, *, max_episodes=5, max_length=40):
    """A stream of episodes of very different lengths, empty ones included, in float64."""
    lengths = draw(st.lists(st.integers(0, max_length), min_size=1, max_size=max_episodes))
    tokens, episodes = sum(lengths), len(lengths)
    lengths_E = torch.tensor(lengths)
    ends_T = torch.tensor(draw(st.lists(st.booleans(), min_size=tokens, max_size=tokens)))
    ends_T = ends_T.bool()
    ends_T[(lengths_E.cumsum(0) - 1)[lengths_E > 0]] = True

    def numbers(count):
        drawn = draw(st.lists(NUMBERS, min_size=count, max_size=count))
        return torch.tensor(drawn, dtype=torch.float64)

    return TokenStream(
        reward_T=numbers(tokens),
        lengths_E=lengths_E,
        value_T=numbers(tokens),
        turn_ends_T=ends_T,
        terminated_E=torch.tensor(
            draw(st.lists(st.booleans(), min_size=episodes, max_size=episodes))
        ),
        bootstrap_E=numbers(episodes),
        group_E=torch.tensor(
            draw(st.lists(st.integers(0, 2), min_size=episodes, max_size=episodes))
        ),
    )
