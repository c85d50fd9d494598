"""Liger's fused kernel for token log-probs, used where it is exact and faster than plain torch.

Both are measured once on the GPU that will run them: which is faster depends on the width and on
the card. This file is the one door to Liger.

Shapes: T tokens, C hidden channels, V vocabulary.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

Kernel = Callable[[Tensor, Tensor, Tensor | None, Tensor, float | None], Tensor]
"""``(hidden_TC, weight_VC, bias_V, token_T, cap)`` to ``-log softmax`` of each token, float32."""
TOKENS, REPEATS = 1024, 3
CHUNK_BYTES = 1 << 28
"""Float32 logits that a chunk holds on a GPU, plain or Liger. Fewer rows make slow products; twice
the bytes take twice the memory."""
WORST = 2.0
"""How many times farther from the true gradient than plain torch a kernel may be."""
_log = logging.getLogger(__name__)


def liger_loss(
    hidden_TC: Tensor, weight_VC: Tensor, bias_V: Tensor | None, token_T: Tensor, cap: float | None
) -> Tensor:
    """Liger's fused linear layer and cross-entropy, in chunks.

    Liger's own chunk is a few rows where the vocabulary is large, and such products are slow.
    """
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    (vocabulary, channels), tokens = weight_VC.shape, len(token_T)
    rows = max(1, CHUNK_BYTES // (vocabulary * hidden_TC.element_size()))
    budget = max(1, math.ceil(rows * vocabulary / max(1, tokens * channels)))
    found: Tensor = LigerFusedLinearCrossEntropyFunction.apply(
        hidden_TC, weight_VC, token_T, bias_V,
        None, -100, 0.0, 0.0, "none", cap,  # class weights, ignored id, z-loss, smoothing
        False, torch.float32, False, False, False, None, None, budget,
    )[0]  # fmt: skip
    return found


class HeadShape(NamedTuple):
    """What the choice of a kernel depends on."""

    device: torch.device
    dtype: torch.dtype
    vocabulary: int
    channels: int
    bias: bool
    cap: float | None
    trains: bool
    """Whether the head's weight has a gradient."""


def fused_kernel(shape: HeadShape) -> Kernel | None:
    """Return Liger's kernel where it is exact and faster; None is chunked plain torch."""
    if shape.device.type != "cuda":
        return None
    return liger_loss if measured(shape)[0] == "liger" else None


def _has_liger() -> bool:
    return importlib.util.find_spec("liger_kernel") is not None


@functools.lru_cache(None)
def measured(shape: HeadShape) -> tuple[str, dict[str, float]]:
    """Return the faster kernel, and the milliseconds of each exact one."""
    # The first caller may be scoring without gradients, under autocast.
    with torch.enable_grad(), torch.autocast(shape.device.type, enabled=False):
        given = _example(shape)
        plain = functools.partial(_in_chunks, *given, shape.cap)
        times = {"chunked": _milliseconds(plain, given)}
        if _has_liger():
            if fault := _fault(shape, given):
                _log.info("Liger's kernel is not used: %s", fault)
            else:
                fused = functools.partial(liger_loss, *given, shape.cap)
                times["liger"] = _milliseconds(fused, given)
    return min(times, key=times.__getitem__), times


def _fault(shape: HeadShape, given: tuple[Any, ...]) -> str | None:
    """Return what is wrong with Liger's kernel here, or None."""
    truth = _gradients(_plain, *_widened(given), cap=shape.cap)
    allowed = [
        WORST * _error(found, true) + 1e-4
        for found, true in zip(_gradients(_plain, *given, cap=shape.cap), truth, strict=True)
    ]
    try:
        found = _gradients(liger_loss, *given, cap=shape.cap)
    except Exception as error:  # noqa: BLE001 - whatever a foreign kernel fails with here
        return str(error)
    errors = [_error(one, true) for one, true in zip(found, truth, strict=True)]
    if all(error <= most for error, most in zip(errors, allowed, strict=True)):
        return None
    return f"its gradients are off by {', '.join(f'{error:.2g}' for error in errors)}"


def _example(shape: HeadShape) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
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
    """Plain torch as it is used: in chunks that backward recomputes."""
    rows = max(1, CHUNK_BYTES // (4 * len(weight_VC)))
    parts = [
        checkpoint(_plain, hidden, weight_VC, bias_V, token, cap, use_reentrant=False)
        for hidden, token in zip(hidden_TC.split(rows), token_T.split(rows), strict=True)
    ]
    return torch.cat(parts)


def _gradients(kernel: Any, *given: Any, cap: float | None) -> list[Tensor]:
    loss_T: Tensor = kernel(*given, cap)
    # Weights of both signs, as in a policy gradient.
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
