from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck

from llm_gym.errors import ConfigError
from llm_gym_agents.algo import StreamError, value_loss


def test_the_worse_of_the_clipped_and_the_plain_error_counts() -> None:
    value_T = torch.tensor([2.0, 2.0, 0.3], requires_grad=True)
    returns_T, old_T = torch.tensor([3.0, 0.0, 1.0]), torch.tensor([0.0, 0.0, 0.0])
    out = value_loss(value_T, returns_T, old_T, cliprange_value=0.5)
    assert out.loss_T.tolist() == pytest.approx([0.5 * 2.5**2, 0.5 * 4.0, 0.5 * 0.7**2])
    assert out.metrics_T["value/clip_fraction"].tolist() == [1.0, 0.0, 0.0]
    (gradient_T,) = torch.autograd.grad(out.loss_T.sum(), value_T)
    # A value that has already moved past the range towards its target stops.
    assert gradient_T.tolist() == pytest.approx([0.0, 2.0, -0.7])


def test_the_clip_can_be_wider_or_off() -> None:
    arguments = (torch.tensor([2.0]), torch.tensor([3.0]), torch.tensor([0.0]))
    losses = [value_loss(*arguments, cliprange_value=c).loss_T.item() for c in (0.5, 1.0, None)]
    assert losses == pytest.approx([3.125, 2.0, 0.5])


def test_gradients_are_exact() -> None:
    torch.manual_seed(0)
    value_T = torch.randn(20, dtype=torch.float64, requires_grad=True)
    returns_T, old_T = torch.randn(2, 20, dtype=torch.float64)
    assert gradcheck(lambda v: value_loss(v, returns_T, old_T).loss_T, (value_T,))


def test_targets_carry_no_gradient_and_narrow_values_are_widened() -> None:
    value_T = torch.tensor([1.0], dtype=torch.bfloat16, requires_grad=True)
    targets_T = torch.tensor([2.0], requires_grad=True)
    out = value_loss(value_T, targets_T, value_T.detach())
    assert out.loss_T.dtype == torch.float32
    out.loss_T.sum().backward()
    assert targets_T.grad is None


def test_wrong_shapes_and_ranges_are_refused() -> None:
    with pytest.raises(StreamError, match=r"got \(2,\), \(1,\) and \(2,\)"):
        value_loss(torch.zeros(2), torch.zeros(1), torch.zeros(2))
    with pytest.raises(ConfigError, match="cliprange_value must be above 0, got 0"):
        value_loss(torch.zeros(2), torch.zeros(2), torch.zeros(2), cliprange_value=0)
