from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from llm_gym_agents.algo import StreamError, masked_mean, masked_sum, masked_var, masked_whiten
from tests.agents.algo import reference
from tests.agents.algo.strategies import NUMBERS, examples

NAN, INF = float("nan"), float("inf")


@examples
@given(st.lists(st.tuples(NUMBERS, st.booleans()), min_size=1, max_size=30))
def test_statistics_match_the_definition(pairs: list[tuple[float, bool]]) -> None:
    values = torch.tensor([value for value, _ in pairs], dtype=torch.float64)
    mask = torch.tensor([kept for _, kept in pairs])
    kept = [value for value, keep in pairs if keep]
    assert masked_sum(values, mask).item() == pytest.approx(math.fsum(kept), abs=1e-12)
    mean = math.fsum(kept) / len(kept) if kept else 0.0
    assert masked_mean(values, mask).item() == pytest.approx(mean, abs=1e-12)
    expected = torch.tensor(reference.whiten(kept), dtype=torch.float64)
    torch.testing.assert_close(masked_whiten(values, mask)[mask], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("poison", [NAN, INF, -INF])
def test_what_is_outside_the_mask_is_harmless_both_ways(poison: float) -> None:
    mask = torch.tensor([1, 0, 1])
    for statistic in (masked_sum, masked_mean, masked_var, masked_whiten):
        clean = torch.tensor([1.0, 0.0, 3.0], requires_grad=True)
        dirty = torch.tensor([1.0, poison, 3.0], requires_grad=True)
        torch.testing.assert_close(statistic(dirty, mask), statistic(clean, mask))
        statistic(dirty, mask).square().sum().backward()
        statistic(clean, mask).square().sum().backward()
        torch.testing.assert_close(dirty.grad, clean.grad)


def test_nothing_and_one_entry_have_defined_answers() -> None:
    values = torch.tensor([NAN, 5.0])
    for mask, total, mean in (([0, 0], 0.0, 0.0), ([0, 1], 5.0, 5.0)):
        kept = torch.tensor(mask)
        assert masked_sum(values, kept).item() == total
        assert masked_mean(values, kept).item() == mean
        assert masked_var(values, kept).item() == 0.0
        assert masked_whiten(values, kept).tolist() == [0.0, 0.0]
    assert masked_whiten(torch.empty(0)).shape == (0,)


def test_equal_entries_whiten_to_exactly_zero() -> None:
    # In float32 the mean of these is off by 6e-8, which 1 / sqrt(1e-8) would blow up.
    assert masked_whiten(torch.full((3,), 0.9)).tolist() == [0.0, 0.0, 0.0]


def test_whitening_can_keep_the_mean_and_epsilon_softens_it() -> None:
    values, mask = torch.tensor([1.0, 3.0, 9.0]), torch.tensor([1, 1, 0])
    kept = masked_whiten(values, mask, shift_mean=False)
    torch.testing.assert_close(kept, masked_whiten(values, mask) + torch.tensor([2.0, 2.0, 0.0]))
    assert kept[2] == 0.0
    assert masked_whiten(values, mask, epsilon=2.0)[1].item() == pytest.approx(0.5)


def test_no_mask_takes_every_entry() -> None:
    values = torch.tensor([1.0, 2.0, 6.0])
    assert masked_mean(values).item() == 3.0
    assert masked_var(values).item() == 7.0


def test_bfloat16_is_summed_wide_and_given_back_as_float32() -> None:
    mean = masked_mean(torch.full((3001,), 0.1, dtype=torch.bfloat16))
    assert mean.dtype == torch.float32
    assert mean.item() == pytest.approx(torch.tensor(0.1, dtype=torch.bfloat16).item(), abs=1e-9)
    assert masked_mean(torch.ones(2, dtype=torch.float64)).dtype == torch.float64


def test_gradients_are_exact() -> None:
    values = torch.randn(6, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([1, 0, 1, 1, 0, 1])
    for statistic in (masked_sum, masked_mean, masked_var, masked_whiten):
        assert gradcheck(lambda x, f=statistic: f(x, mask), (values,))


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(StreamError, match=r"got mask \(2,\) for values \(3,\)"):
        masked_mean(torch.ones(3), torch.ones(2))
