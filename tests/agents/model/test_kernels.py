"""Which kernel computes the head: what is wrong with one is told to those who asked for it."""

import itertools
import logging

import pytest
import torch
import torch.nn.functional as F

from llm_gym_agents.model import kernels
from llm_gym_agents.model.kernels import FusedKernel, HeadShape, kernel_for, measured

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
def doors(monkeypatch, caplog):
    """Put kernels in the place of the fused ones, on a card that is this CPU."""
    on_gpu = kernels._example
    cpu = torch.device("cpu")
    monkeypatch.setattr(kernels, "_example", lambda shape: on_gpu(shape._replace(device=cpu)))
    spent = itertools.count(9, -1)  # whoever is later is faster
    monkeypatch.setattr(kernels, "_milliseconds", lambda *_: float(next(spent)))
    caplog.set_level(logging.INFO)

    def put(**given):
        made = {
            name: FusedKernel(kernel, "torch", "torch", (torch.float32,), True)
            for name, kernel in given.items()
        }
        monkeypatch.setattr(kernels, "_FUSED", made)

    caches = (kernels.measured, kernels._warn_if_inexact)
    for each in caches:
        each.cache_clear()
    yield put
    for each in caches:
        each.cache_clear()


WRONG = {off: "off by 0.1", lost: "off by nan", fails: "no such architecture"}


@pytest.mark.parametrize("kernel", WRONG)
def test_of_a_kernel_that_nobody_asked_for_no_one_is_warned(doors, caplog, kernel):
    doors(cut=kernel, liger=exact)
    assert set(measured(SHAPE)[1]) == {"chunked", "liger"}
    (said,) = caplog.records
    assert said.levelno == logging.INFO
    assert WRONG[kernel] in said.getMessage()


@pytest.mark.parametrize("kernel", WRONG)
def test_who_asked_for_a_kernel_is_warned_of_it_once(doors, caplog, kernel):
    doors(cut=kernel)
    for _ in range(2):
        assert kernel_for("cut", SHAPE) == ("cut", kernel)
    (said,) = caplog.records
    assert said.levelno == logging.WARNING
    assert said.getMessage().startswith("model.logprob_kernel='cut'")
    assert WRONG[kernel] in said.getMessage()


def test_of_exact_kernels_nothing_is_said_and_the_first_that_is_faster_is_used(doors, caplog):
    doors(liger=exact, cut=exact)
    assert kernel_for("auto", SHAPE) == ("liger", exact)
    assert set(measured(SHAPE)[1]) == {"chunked", "liger"}, "the next is not even compiled"
    assert measured(SHAPE, every=True)[0] == "cut"
    assert kernel_for("liger", SHAPE) == ("liger", exact)
    assert caplog.records == []


def test_a_kernel_that_is_slower_than_plain_torch_leaves_the_next_its_chance(doors, monkeypatch):
    doors(liger=exact, cut=exact)
    spent = iter([5.0, 7.0, 3.0])
    monkeypatch.setattr(kernels, "_milliseconds", lambda *_: next(spent))
    assert kernel_for("auto", SHAPE) == ("cut", exact)
    assert measured(SHAPE)[1] == {"chunked": 5.0, "liger": 7.0, "cut": 3.0}
