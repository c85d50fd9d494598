from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.errors import ConfigError
from llm_gym_agents.algo import (
    AGGREGATIONS,
    BatchCounts,
    StreamError,
    aggregate_loss,
    token_weights,
)
from tests.agents.algo import reference
from tests.agents.algo.strategies import examples

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=8).filter(sum)
MODES = st.sampled_from(AGGREGATIONS)


def norm_of(mode: str) -> float | None:
    return 7.0 if mode.endswith("norm") else None


@examples
@given(LENGTHS, MODES, st.randoms(use_true_random=False))
def test_matches_the_definition(lengths: list[int], mode: str, random) -> None:
    losses = [random.uniform(-5, 5) for _ in range(sum(lengths))]
    loss_T = torch.tensor(losses, dtype=torch.float64)
    loss = aggregate_loss(loss_T, torch.tensor(lengths), mode, norm_length=norm_of(mode))
    assert loss.item() == pytest.approx(reference.aggregate(losses, lengths, mode, 7.0), abs=1e-12)


@examples
@given(LENGTHS, MODES, st.integers(0, 8))
def test_micro_batches_of_episodes_add_up_to_the_batch(
    lengths: list[int], mode: str, cut: int
) -> None:
    torch.manual_seed(0)
    loss_T, lengths_E = torch.randn(sum(lengths), dtype=torch.float64), torch.tensor(lengths)
    counts, norm = BatchCounts.of(lengths_E), norm_of(mode)
    whole = aggregate_loss(loss_T, lengths_E, mode, norm_length=norm)
    tokens = int(lengths_E[:cut].sum())
    parts = sum(
        aggregate_loss(part_T, part_E, mode, counts=counts, norm_length=norm)
        for part_T, part_E in (
            (loss_T[:tokens], lengths_E[:cut]),
            (loss_T[tokens:], lengths_E[cut:]),
        )
    )
    torch.testing.assert_close(parts, whole)


@examples
@given(LENGTHS, MODES, st.data())
def test_weights_make_even_a_cut_inside_an_episode_harmless(
    lengths: list[int], mode: str, data: st.DataObject
) -> None:
    torch.manual_seed(0)
    loss_T, lengths_E = torch.randn(sum(lengths), dtype=torch.float64), torch.tensor(lengths)
    weights_T = token_weights(lengths_E, mode, norm_length=norm_of(mode), dtype=torch.float64)
    cut = data.draw(st.integers(0, sum(lengths)))
    parts = (weights_T * loss_T)[:cut].sum() + (weights_T * loss_T)[cut:].sum()
    whole = aggregate_loss(loss_T, lengths_E, mode, norm_length=norm_of(mode))
    torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_averaging_the_gradients_of_two_processes_gives_the_batch(mode: str) -> None:
    loss_T, lengths_E = torch.randn(7, dtype=torch.float64), torch.tensor([1, 4, 0, 2])
    counts, norm = BatchCounts.of(lengths_E), norm_of(mode)
    whole = aggregate_loss(loss_T, lengths_E, mode, norm_length=norm)
    ranks = [
        aggregate_loss(part_T, part_E, mode, counts=counts, norm_length=norm, world_size=2)
        for part_T, part_E in ((loss_T[:5], lengths_E[:2]), (loss_T[5:], lengths_E[2:]))
    ]
    torch.testing.assert_close(sum(ranks) / 2, whole)


def test_no_tokens_give_a_loss_of_zero() -> None:
    for mode in AGGREGATIONS:
        loss = aggregate_loss(torch.zeros(0), torch.tensor([0]), mode, norm_length=norm_of(mode))
        assert loss.item() == 0.0


def test_what_cannot_be_honoured_is_refused() -> None:
    lengths_E = torch.tensor([2])
    with pytest.raises(ConfigError, match=r"one of token-mean, .*, got 'mean'"):
        token_weights(lengths_E, "mean")
    with pytest.raises(ConfigError, match="needs a norm_length above 0, got None"):
        token_weights(lengths_E, "seq-mean-token-sum-norm")
    with pytest.raises(ConfigError, match="belongs to seq-mean-token-sum-norm, got 5"):
        token_weights(lengths_E, "token-mean", norm_length=5)
    with pytest.raises(ConfigError, match="world_size must be at least 1, got 0"):
        token_weights(lengths_E, world_size=0)
    with pytest.raises(StreamError, match=r"got shape \(3,\) for 2 tokens"):
        aggregate_loss(torch.zeros(3), lengths_E)
