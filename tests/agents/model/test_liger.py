"""Which kernel computes the head: Liger's only where it is exact and faster."""

import logging

import pytest
import torch
import torch.nn.functional as F

from llm_gym_agents.model import head
from llm_gym_agents.model.head import HeadShape, fused_kernel, measured

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

    def put(kernel, plain_ms=5.0, fused_ms=3.0):
        spent = iter([plain_ms, fused_ms])
        monkeypatch.setattr(head, "_milliseconds", lambda *_: next(spent))
        monkeypatch.setattr(head, "liger_loss", kernel)

    measured.cache_clear()
    yield put
    measured.cache_clear()


WRONG = {off: "off by 0.1", lost: "off by nan", fails: "no such architecture"}


@pytest.mark.parametrize("kernel", WRONG)
def test_an_inexact_kernel_is_not_used(liger, caplog, kernel):
    liger(kernel)
    assert measured(SHAPE) == ("chunked", {"chunked": 5.0})
    (said,) = caplog.records
    assert said.levelno == logging.INFO
    assert WRONG[kernel] in said.getMessage()


@pytest.mark.parametrize(("fused_ms", "best"), [(3.0, "liger"), (7.0, "chunked")])
def test_an_exact_kernel_is_used_if_it_is_faster_than_plain_torch(liger, caplog, fused_ms, best):
    liger(exact, fused_ms=fused_ms)
    assert fused_kernel(SHAPE) == (exact if best == "liger" else None)
    assert fused_kernel(SHAPE._replace(device=torch.device("cpu"))) is None
    assert measured(SHAPE)[1] == {"chunked": 5.0, "liger": fused_ms}
    assert caplog.records == []
