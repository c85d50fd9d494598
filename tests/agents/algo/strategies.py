"""Hypothesis strategies for streams of tokens."""

from __future__ import annotations

import torch
from hypothesis import settings
from hypothesis import strategies as st

from llm_gym_agents.algo import TokenStream

# Torch's first calls are slow, so a deadline would only find the first example.
examples = settings(deadline=None, max_examples=25)

NUMBERS = st.floats(-5.0, 5.0, width=32)
FRACTIONS = st.sampled_from([0.0, 0.3, 0.95, 1.0])


@st.composite
def streams(draw: st.DrawFn, *, max_episodes: int = 5, max_length: int = 40) -> TokenStream:
    """A stream of episodes of very different lengths, empty ones included, in float64."""
    lengths = draw(st.lists(st.integers(0, max_length), min_size=1, max_size=max_episodes))
    tokens, episodes = sum(lengths), len(lengths)
    lengths_E = torch.tensor(lengths)
    ends_T = torch.tensor(draw(st.lists(st.booleans(), min_size=tokens, max_size=tokens)))
    ends_T = ends_T.bool()
    ends_T[(lengths_E.cumsum(0) - 1)[lengths_E > 0]] = True

    def numbers(count: int) -> torch.Tensor:
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
