import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo import (
    AGGREGATIONS,
    BatchCounts,
    StreamError,
    aggregate_loss,
    token_weights,
)
from tests.agents.algo.reference import examples

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=8).filter(sum)
MODES = st.sampled_from(AGGREGATIONS)


def norm_of(mode):
    return 7.0 if mode.endswith("norm") else None


@examples
@given(LENGTHS, MODES, st.integers(0, 8))
def test_micro_batches_of_episodes_add_up_to_the_batch(lengths, mode, cut):
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


def test_no_tokens_give_a_loss_of_zero():
    for mode in AGGREGATIONS:
        loss = aggregate_loss(torch.zeros(0), torch.tensor([0]), mode, norm_length=norm_of(mode))
        assert loss.item() == 0.0


@pytest.mark.parametrize(
    ("mode", "settings", "what"),
    [
        ("mean", {}, "token-mean"),
        ("seq-mean-token-sum-norm", {}, "norm_length"),
        ("token-mean", {"norm_length": 5}, "norm"),
    ],
)
def test_wrong_aggregations_are_refused(mode, settings, what):
    with pytest.raises(ConfigError, match=what):
        token_weights(torch.tensor([2]), mode, **settings)
    with pytest.raises(StreamError, match="2 tokens"):
        aggregate_loss(torch.zeros(3), torch.tensor([2]))
