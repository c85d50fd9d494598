"""Which kernel computes the head: what is wrong with one is told to those who asked for it."""

import logging

import pytest
import torch
import torch.nn.functional as F

from llm_gym_agents.model import kernels
from llm_gym_agents.model.kernels import HeadShape, kernel_for, measured

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
    on_gpu = kernels._example
    cpu = torch.device("cpu")
    monkeypatch.setattr(kernels, "_example", lambda shape: on_gpu(shape._replace(device=cpu)))
    monkeypatch.setattr(kernels, "_has_liger", lambda: True)
    caplog.set_level(logging.INFO)
    caches = (kernels.measured, kernels._warn_if_inexact)

    def put(kernel, plain_ms=5.0, fused_ms=3.0):
        spent = iter([plain_ms, fused_ms])
        monkeypatch.setattr(kernels, "_milliseconds", lambda *_: next(spent))
        monkeypatch.setattr(kernels, "liger_loss", kernel)

    for each in caches:
        each.cache_clear()
    yield put
    for each in caches:
        each.cache_clear()


WRONG = {off: "off by 0.1", lost: "off by nan", fails: "no such architecture"}


@pytest.mark.parametrize("kernel", WRONG)
def test_of_a_kernel_that_nobody_asked_for_no_one_is_warned(liger, caplog, kernel):
    liger(kernel)
    assert measured(SHAPE) == ("chunked", {"chunked": 5.0})
    (said,) = caplog.records
    assert said.levelno == logging.INFO
    assert WRONG[kernel] in said.getMessage()


@pytest.mark.parametrize("kernel", WRONG)
def test_who_asked_for_a_kernel_is_warned_of_it_once(liger, caplog, kernel):
    liger(kernel)
    for _ in range(2):
        assert kernel_for("liger", SHAPE) == ("liger", kernel)
    (said,) = caplog.records
    assert said.levelno == logging.WARNING
    assert WRONG[kernel] in said.getMessage()


@pytest.mark.parametrize(("fused_ms", "best"), [(3.0, "liger"), (7.0, "chunked")])
def test_an_exact_kernel_is_used_if_it_is_faster_than_plain_torch(liger, caplog, fused_ms, best):
    liger(exact, fused_ms=fused_ms)
    assert kernel_for("auto", SHAPE) == (best, exact if best == "liger" else None)
    assert measured(SHAPE)[1] == {"chunked": 5.0, "liger": fused_ms}
    assert kernel_for("liger", SHAPE) == ("liger", exact)
    assert caplog.records == []
