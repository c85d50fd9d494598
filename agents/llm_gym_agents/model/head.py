"""The head of a causal language model: hidden states become log-probs of given tokens.

The trainer and the embedded engine share it. On a GPU, Liger's fused kernel computes product and
softmax if it is installed and a trial shows that it is exact. Otherwise the head works in chunks
that backward recomputes. Either way no tensor of size tokens times vocabulary exists. Only this
file imports Liger.

Shapes: T tokens asked about, C hidden channels, V vocabulary.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

Entropy = Literal["none", "metric", "each", "gradient"]
"""How the entropy is computed: not at all, as a mean for the log, per token for the log, or with a
gradient."""
CHUNK_BYTES = {"cpu": 1 << 24}
"""Float32 logits of a chunk, small enough for a CPU's cache; for GPUs, see ``GPU_CHUNK_BYTES``."""
ENTROPY_TOKENS = 1024
"""Tokens from which the mean entropy is estimated beside a fused kernel."""
Kernel = Callable[[Tensor, Tensor, Tensor | None, Tensor, float | None], Tensor]
"""``(hidden_TC, weight_VC, bias_V, token_T, cap)`` to ``-log softmax`` of each token, float32."""
TOKENS = 1024
"""Tokens of the trial."""
GPU_CHUNK_BYTES = 1 << 28
"""Float32 logits that a chunk holds on a GPU, plain or Liger. Fewer rows make slow products; twice
the bytes take twice the memory."""
WORST = 2.0
"""Largest error of a kernel's gradient, as a multiple of the error of plain torch."""
_log = logging.getLogger(__name__)


class Head(NamedTuple):
    """The parameters that turn a hidden state into logits."""

    weight: Tensor
    bias: Tensor | None
    scale: float
    softcap: float | None

    @classmethod
    def of(cls, lm: Any) -> Head:
        """Return the head of a transformers causal language model, with its adapters merged."""
        found = lm.get_output_embeddings()
        weight = found.weight
        if hasattr(found, "get_delta_weight") and not found.disable_adapters:
            for adapter in found.active_adapters:
                weight = weight + found.get_delta_weight(adapter).to(weight.dtype)
        bias = getattr(getattr(found, "base_layer", found), "bias", None)
        return cls(weight, bias, *logit_scaling(lm.config.get_text_config()))

    def logits(self, hidden_TC: Tensor) -> Tensor:
        logits_TV = F.linear(hidden_TC.to(self.weight.dtype), self.weight, self.bias).float()
        return scale_logits(logits_TV, self.scale, self.softcap)

    def shape(self) -> HeadShape:
        weight = self.weight
        trains = weight.requires_grad
        dtype = _compute_dtype(weight)
        bias = self.bias is not None
        vocabulary, channels = weight.shape
        return HeadShape(weight.device, dtype, vocabulary, channels, bias, self.softcap, trains)


def token_log_probs(
    head: Head,
    hidden_TC: Tensor,
    token_T: Tensor,
    *,
    temperature: float = 1.0,
    entropy: Entropy = "none",
    fused: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Return the log-prob of each token at the hidden state before it, and entropies or None.

    Args:
        head: Head of the model that computed the hidden states.
        hidden_TC: The trunk's last hidden states.
        token_T: The tokens to score.
        temperature: Log-probs are those of ``softmax(logits / temperature)``.
        entropy: How to compute entropies. ``metric`` has no gradient, and with a fused kernel it is
            estimated from some tokens; ``each`` is exact.
        fused: Whether a fused kernel may be used if it is faster.
    """
    # Fused kernels wait for the GPU to count tokens and take seconds to tune. If all logits fit in
    # one chunk, they are not worth it.
    few = len(token_T) <= _rows_held(head, "cuda") if hidden_TC.is_cuda else not len(token_T)
    kernel = fused_kernel(head.shape()) if fused and not few and entropy != "gradient" else None
    if kernel is None:
        return _chunked(head, hidden_TC, token_T, temperature, entropy)
    log_prob_T = _fused(kernel, head, hidden_TC, token_T, temperature)
    if entropy == "none":
        return log_prob_T, None
    step = 1 if entropy == "each" else -(-len(token_T) // ENTROPY_TOKENS)
    with torch.no_grad():
        _, some = _chunked(head, hidden_TC[::step], token_T[::step], temperature, "metric")
    assert some is not None
    return log_prob_T, some if step == 1 else some.mean().expand(len(token_T))


def _fused(
    kernel: Kernel, head: Head, hidden_TC: Tensor, token_T: Tensor, temperature: float
) -> Tensor:
    # softcap(x * scale) / temperature is another softcap at x * scale / temperature.
    factor, cap = head.scale / temperature, head.softcap
    dtype = _compute_dtype(head.weight)
    hidden_TC = (hidden_TC if factor == 1.0 else hidden_TC.float() * factor).to(dtype)
    bias_V = head.bias if head.bias is None else (head.bias * factor).to(dtype)
    cap = None if cap is None else cap / temperature
    with torch.autocast(hidden_TC.device.type, enabled=False):
        weight_VC = head.weight.to(dtype)
        return -kernel(hidden_TC.contiguous(), weight_VC, bias_V, token_T.contiguous(), cap)


def _chunked(
    head: Head, hidden_TC: Tensor, token_T: Tensor, temperature: float, entropy: Entropy
) -> tuple[Tensor, Tensor | None]:
    rows = _rows_held(head, hidden_TC.device.type)
    if len(token_T) <= rows:
        return _of_chunk(head, hidden_TC, token_T, temperature, entropy)
    parts = []
    for hidden, token in zip(hidden_TC.split(rows), token_T.split(rows), strict=True):
        given = (head, hidden, token, temperature, entropy)
        again = torch.is_grad_enabled()
        parts.append(
            checkpoint(_of_chunk, *given, use_reentrant=False) if again else _of_chunk(*given)
        )
    log_probs, entropies = zip(*parts, strict=True)
    return torch.cat(log_probs), None if entropy == "none" else torch.cat(entropies)


def _rows_held(head: Head, device: str) -> int:
    return max(1, CHUNK_BYTES.get(device, GPU_CHUNK_BYTES) // (4 * head.weight.shape[0]))


def _of_chunk(
    head: Head, hidden_TC: Tensor, token_T: Tensor, temperature: float, entropy: Entropy
) -> tuple[Tensor, Tensor | None]:
    logits_TV = head.logits(hidden_TC)
    if temperature != 1.0:  # dividing by 1 would hold one more chunk
        logits_TV = logits_TV / temperature
    log_probs_TV = logits_TV.log_softmax(-1)
    # The entropy comes first: the order of computation is the order in which gradients are summed,
    # which decides the last bits.
    seen_TV = log_probs_TV if entropy == "gradient" else log_probs_TV.detach()
    entropy_T = None if entropy == "none" else -(seen_TV.exp() * seen_TV).sum(-1)
    return log_probs_TV.gather(-1, token_T.unsqueeze(-1)).squeeze(-1), entropy_T


def _compute_dtype(weight: Tensor) -> torch.dtype:
    device = weight.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return weight.dtype


def logit_scaling(config: Any) -> tuple[float, float | None]:
    """Return a family's factor on logits, and its soft cap or None."""
    scale = float(getattr(config, "logit_scale", None) or 1.0)
    scale /= float(getattr(config, "logits_scaling", None) or 1.0)
    return scale, getattr(config, "final_logit_softcapping", None)


def scale_logits(logits_TV: Tensor, scale: float, softcap: float | None) -> Tensor:
    """Apply ``logit_scaling``."""
    if scale != 1.0:
        logits_TV = logits_TV * scale
    return logits_TV if softcap is None else torch.tanh(logits_TV / softcap) * softcap


# --- Liger ---------------------------------------------------------------------------------


def liger_loss(
    hidden_TC: Tensor, weight_VC: Tensor, bias_V: Tensor | None, token_T: Tensor, cap: float | None
) -> Tensor:
    """Liger's fused linear layer and cross-entropy, in chunks.

    With a large vocabulary, Liger's default chunk has few rows, and such products are slow.
    """
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    (vocabulary, channels), tokens = weight_VC.shape, len(token_T)
    rows = max(1, GPU_CHUNK_BYTES // (vocabulary * hidden_TC.element_size()))
    budget = max(1, math.ceil(rows * vocabulary / max(1, tokens * channels)))
    found: Tensor = LigerFusedLinearCrossEntropyFunction.apply(
        hidden_TC, weight_VC, token_T, bias_V,
        None, -100, 0.0, 0.0, "none", cap,  # class weights, ignored id, z-loss, smoothing
        False, torch.float32, False, False, False, None, None, budget,
    )[0]  # fmt: skip
    return found


class HeadShape(NamedTuple):
    """The properties of a head that decide the kernel."""

    device: torch.device
    dtype: torch.dtype
    vocabulary: int
    channels: int
    bias: bool
    cap: float | None
    trains: bool
    """Whether the head's weight has a gradient."""


@functools.lru_cache(None)
def fused_kernel(shape: HeadShape) -> Kernel | None:
    """Return Liger's kernel if it is installed and exact; None means chunked plain torch."""
    if shape.device.type != "cuda" or not _has_liger():
        return None
    # The first caller may be scoring without gradients, under autocast.
    with torch.enable_grad(), torch.autocast(shape.device.type, enabled=False):
        fault = _fault(shape, _example(shape))
    if fault:
        _log.info("Liger's kernel is not used: %s", fault)
    return None if fault else liger_loss


def _has_liger() -> bool:
    return importlib.util.find_spec("liger_kernel") is not None


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


def _gradients(kernel: Any, *given: Any, cap: float | None) -> list[Tensor]:
    loss_T: Tensor = kernel(*given, cap)
    # Weights of both signs, as in a policy gradient.
    signs_T = torch.where(torch.arange(TOKENS, device=loss_T.device) % 3 == 0, 2.0, -1.0)
    wanted = [each for each in given if each is not None and each.requires_grad]
    return list(torch.autograd.grad((loss_T * signs_T).sum() / TOKENS, wanted))


def _error(found: Tensor, truth: Tensor) -> float:
    return float((found.float() - truth).norm() / truth.norm().clamp(min=1e-30))
