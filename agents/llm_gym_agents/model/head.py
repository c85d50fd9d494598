"""The head of a causal language model: hidden states become log-probs of given tokens.

The trainer and the embedded engine share it. On a GPU a fused kernel computes product and softmax
(``kernels``); elsewhere it works in chunks that backward recomputes. Either way no tensor of tokens
times vocabulary exists.

Shapes: T tokens asked about, C hidden channels, V vocabulary.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from llm_gym_agents.model import kernels
from llm_gym_agents.model.kernels import HeadShape, Kernel, fused_kernel

Entropy = Literal["none", "metric", "each", "gradient"]
"""How the entropy is computed: not at all, as a mean for the log, per token for the log, or with a
gradient."""
CHUNK_BYTES = {"cpu": 1 << 24}
"""Float32 logits of a chunk, small enough for a CPU's cache; for GPUs, see ``kernels``."""
ENTROPY_TOKENS = 1024
"""Tokens from which the mean entropy is estimated beside a fused kernel."""


class Head(NamedTuple):
    """What turns a hidden state into logits."""

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
        """Return what the choice of a kernel depends on."""
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
        head: Of the model that the hidden states come from.
        hidden_TC: The trunk's last hidden states.
        token_T: The tokens asked about.
        temperature: Log-probs are those of ``softmax(logits / temperature)``.
        entropy: Of each distribution. ``metric`` has no gradient, and beside a fused kernel is
            estimated from some tokens; ``each`` is exact.
        fused: Whether a fused kernel may be used where it is faster.
    """
    # Fused kernels wait for the GPU to count tokens and take seconds to tune: not worth it where
    # all logits are one chunk.
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
    """Return the tokens of a chunk."""
    return max(1, CHUNK_BYTES.get(device, kernels.CHUNK_BYTES) // (4 * head.weight.shape[0]))


def _of_chunk(
    head: Head, hidden_TC: Tensor, token_T: Tensor, temperature: float, entropy: Entropy
) -> tuple[Tensor, Tensor | None]:
    logits_TV = head.logits(hidden_TC)
    if temperature != 1.0:  # dividing by 1 would hold one more chunk
        logits_TV = logits_TV / temperature
    log_probs_TV = logits_TV.log_softmax(-1)
    # The entropy first: the order of computation is that in which gradients are added up, and
    # decides the last bits.
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
