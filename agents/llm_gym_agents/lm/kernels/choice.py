"""Which kernel computes log-probs: measured once for a shape, on the card that will run it.

A kernel is a candidate if it is installed, takes the shape and gives the gradient of the plain
computation; the first one that is faster than that is used. What is slow at one width is fast at
another, and what was built for another card may not run at all, so neither is guessed.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from llm_gym.errors import ConfigError, install_command
from llm_gym_agents.lm.kernels import cut, liger

KernelName = Literal["auto", "chunked", "liger", "cut"]
Kernel = Callable[[Tensor, Tensor, Tensor | None, Tensor, float | None], Tensor]
TOKENS, REPEATS = 1024, 3
CHUNK_BYTES = 1 << 28
"""Logits in float32 that the plain computation holds at a time: a GPU wants products of many rows,
and twice as many bytes are twice as much memory."""
WORST = 2.0
"""How many times farther from the truth than the plain computation a gradient may be."""
_DOORS: dict[str, Any] = {"liger": liger, "cut": cut}
"""In the order in which they are tried: each takes seconds to compile and to tune, and Liger's was
the fastest for every shape that was measured (``benchmarks/train_gpu.py head``)."""
_log = logging.getLogger(__name__)


class Shape(NamedTuple):
    """What decides which kernel is fastest."""

    device: torch.device
    dtype: torch.dtype
    vocabulary: int
    channels: int
    bias: bool
    cap: float | None
    trains: bool
    """Whether the head's own weight has a gradient."""


def kernel_for(name: KernelName, shape: Shape) -> tuple[str, Kernel | None]:
    """Return the kernel to use and its name; None is the chunked computation in plain torch."""
    asked = name
    if name == "auto":
        name = measured(shape)[0] if shape.device.type == "cuda" else "chunked"
    if name == "chunked":
        return name, None
    door = _DOORS[name]
    if not door.is_here():
        package = {"liger": "liger-kernel", "cut": "cut-cross-entropy"}[name]
        raise ConfigError(
            f"model.logprob_kernel='{name}' needs {package}. "
            f"Install it with: {install_command('gpu')}"
        )
    if shape.device.type != "cuda" or not door.takes(shape.dtype, shape.bias):
        where = f"{shape.dtype} on {shape.device.type}" + (" with a bias" if shape.bias else "")
        raise ConfigError(f"model.logprob_kernel='{name}' cannot compute in {where}; choose 'auto'")
    if asked != "auto":
        _warn_of(name, shape)
    return name, door.negative_log_probs


@functools.lru_cache(None)
def measured(shape: Shape, every: bool = False) -> tuple[KernelName, dict[str, float]]:
    """Return the kernel for a shape, and the milliseconds of each that was tried and is right.

    ``every`` one is tried even if an earlier one is faster than the plain computation.
    """
    # Whoever asks first may be scoring without gradients, under autocast.
    with torch.enable_grad(), torch.autocast(shape.device.type, enabled=False):
        return _measured(shape, every)


def _measured(shape: Shape, every: bool) -> tuple[KernelName, dict[str, float]]:
    given = _example(shape)
    plain = functools.partial(_in_chunks, *given, shape.cap)
    times: dict[str, float] = {"chunked": _milliseconds(plain, given)}
    for name, door in _DOORS.items():
        if not (door.is_here() and door.takes(shape.dtype, shape.bias)):
            continue
        # Nobody asked for this one, and another does its work: nothing to be warned of.
        if wrong := _faults(shape, given, [name]):
            _log.info("the head kernel %s is not used: %s", name, wrong[name])
            continue
        kernel = functools.partial(door.negative_log_probs, *given, shape.cap)
        times[name] = _milliseconds(kernel, given)
        if times[name] < times["chunked"] and not every:
            break
    best: Any = min(times, key=times.__getitem__)
    return best, times


@functools.lru_cache(None)
def _warn_of(name: str, shape: Shape) -> None:
    """Say once if a kernel that was asked for is not as exact as plain torch."""
    with torch.enable_grad(), torch.autocast(shape.device.type, enabled=False):
        wrong = _faults(shape, _example(shape), [name])
    if wrong:
        _log.warning(
            "model.logprob_kernel='%s' is used as asked, but 'auto' would not: %s",
            name,
            wrong[name],
        )


def _faults(shape: Shape, given: tuple[Any, ...], names: list[str]) -> dict[str, str]:
    """Return what is wrong with those of these kernels that run here, if something is."""
    truth = _gradients(_plain, *_widened(given), cap=shape.cap)
    allowed = [
        WORST * _error(found, true) + 1e-4
        for found, true in zip(_gradients(_plain, *given, cap=shape.cap), truth, strict=True)
    ]
    wrong = {}
    for name in names:
        door = _DOORS[name]
        if not (door.is_here() and door.takes(shape.dtype, shape.bias)):
            continue
        try:
            found = _gradients(door.negative_log_probs, *given, cap=shape.cap)
        except Exception as error:  # noqa: BLE001 - whatever a foreign kernel fails with here
            wrong[name] = str(error)
            continue
        errors = [_error(one, true) for one, true in zip(found, truth, strict=True)]
        if not all(error <= most for error, most in zip(errors, allowed, strict=True)):
            told = ", ".join(f"{error:.2g}" for error in errors)
            wrong[name] = f"its gradients are off by {told}"
    return wrong


def _example(shape: Shape) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    chance = torch.Generator(shape.device).manual_seed(0)

    def drawn(*size: int, scale: float, grad: bool) -> Tensor:
        made = torch.randn(size, generator=chance, device=shape.device).mul_(scale)
        return made.to(shape.dtype).requires_grad_(grad)

    hidden = drawn(TOKENS, shape.channels, scale=1.0, grad=True)
    weight = drawn(shape.vocabulary, shape.channels, scale=0.05, grad=shape.trains)
    bias = drawn(shape.vocabulary, scale=0.1, grad=shape.trains) if shape.bias else None
    tokens = torch.randint(shape.vocabulary, (TOKENS,), generator=chance, device=shape.device)
    return hidden, weight, bias, tokens


def _widened(given: tuple[Any, ...]) -> list[Any]:
    return [
        each.detach().float().requires_grad_(each.requires_grad)
        if each is not None and each.is_floating_point()
        else each
        for each in given
    ]


def _plain(
    hidden_TC: Tensor, weight_VC: Tensor, bias_V: Tensor | None, token_T: Tensor, cap: float | None
) -> Tensor:
    logits_TV = F.linear(hidden_TC, weight_VC, bias_V).float()
    if cap is not None:
        logits_TV = torch.tanh(logits_TV / cap) * cap
    return F.cross_entropy(logits_TV, token_T, reduction="none")


def _in_chunks(
    hidden_TC: Tensor, weight_VC: Tensor, bias_V: Tensor | None, token_T: Tensor, cap: float | None
) -> Tensor:
    """The plain computation as it is used: some rows at a time, each again on the way back."""
    rows = max(1, CHUNK_BYTES // (4 * len(weight_VC)))
    parts = [
        checkpoint(_plain, hidden, weight_VC, bias_V, token, cap, use_reentrant=False)
        for hidden, token in zip(hidden_TC.split(rows), token_T.split(rows), strict=True)
    ]
    return torch.cat(parts)


def _gradients(kernel: Any, *given: Any, cap: float | None) -> list[Tensor]:
    loss_T: Tensor = kernel(*given, cap)
    # Rewards of both signs, as a policy gradient has them.
    signs_T = torch.where(torch.arange(TOKENS, device=loss_T.device) % 3 == 0, 2.0, -1.0)
    wanted = [each for each in given if each is not None and each.requires_grad]
    return list(torch.autograd.grad((loss_T * signs_T).sum() / TOKENS, wanted))


def _error(found: Tensor, truth: Tensor) -> float:
    return float((found.float() - truth).norm() / truth.norm().clamp(min=1e-30))


def _milliseconds(run: Callable[[], Tensor], given: tuple[Any, ...]) -> float:
    wanted = [each for each in given if each is not None and each.requires_grad]
    spent = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        torch.autograd.grad(run().sum(), wanted)
        torch.cuda.synchronize()
        spent.append(time.perf_counter() - start)
    return 1e3 * min(spent)
