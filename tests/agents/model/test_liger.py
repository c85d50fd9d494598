"""Which kernel computes the head: Liger's only where it is exact."""

import logging

import pytest
import torch
import torch.nn.functional as F

from llm_gym_agents.model import head
from llm_gym_agents.model.head import HeadShape, fused_kernel

SHAPE = HeadShape(torch.device("cuda"), torch.float32, 50, 8, bias=False, cap=None, trains=True)


def exact(hidden, weight, bias, token, cap):
    return F.cross_entropy(F.linear(hidden, weight), token, reduction="none")


def off(hidden, weight, bias, token, cap):
    return exact(1.1 * hidden, weight, bias, token, cap)


def lost(hidden, weight, bias, token, cap):
    return exact(hidden * float("nan"), weight, bias, token, cap)


def fails(hidden, weight, bias, token, cap):
    raise RuntimeError("no such architecture")


@pytest.fixture
def liger(monkeypatch, caplog):
    """Put another kernel in Liger's place, on a card that is this CPU."""
    on_gpu = head._example
    cpu = torch.device("cpu")
    monkeypatch.setattr(head, "_example", lambda shape: on_gpu(shape._replace(device=cpu)))
    monkeypatch.setattr(head, "_has_liger", lambda: True)
    caplog.set_level(logging.INFO)
    fused_kernel.cache_clear()
    yield lambda kernel: monkeypatch.setattr(head, "liger_loss", kernel)
    fused_kernel.cache_clear()


WRONG = {off: "off by 0.1", lost: "off by nan", fails: "no such architecture"}


@pytest.mark.parametrize("kernel", WRONG)
def test_an_inexact_kernel_is_not_used(liger, caplog, kernel):
    liger(kernel)
    assert fused_kernel(SHAPE) is None
    (said,) = caplog.records
    assert said.levelno == logging.INFO
    assert WRONG[kernel] in said.getMessage()


def test_an_exact_kernel_is_used_on_a_gpu_alone(liger, caplog):
    liger(exact)
    assert fused_kernel(SHAPE) is exact
    assert fused_kernel(SHAPE._replace(device=torch.device("cpu"))) is None
    assert caplog.records == []
