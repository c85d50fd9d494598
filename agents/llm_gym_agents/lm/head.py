"""The head of a causal language model: hidden states become log-probs of given tokens.

The one head of the project: the trainer learns with it and the embedded engine scores with it. It
works in chunks that are computed again on the way back, so no tensor of tokens times vocabulary
ever exists.

Shapes: T tokens asked about, C hidden channels, V vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK_ELEMENTS = 2**22
"""Logits held at a time, in numbers: 16 MiB in float32."""


class Head(NamedTuple):
    """What turns a hidden state into logits."""

    weight: Tensor
    bias: Tensor | None
    scale: float
    softcap: float | None

    @classmethod
    def of(cls, lm: Any) -> Head:
        """Return the head of a transformers causal language model; weights are not copied."""
        found = lm.get_output_embeddings()
        return cls(found.weight, getattr(found, "bias", None), *logit_scaling(lm.config))

    def logits(self, hidden_TC: Tensor) -> Tensor:
        """Return the logits ``[T, V]`` in float32."""
        logits_TV = F.linear(hidden_TC.to(self.weight.dtype), self.weight, self.bias).float()
        return scale_logits(logits_TV, self.scale, self.softcap)


def token_log_probs(
    head: Head,
    hidden_TC: Tensor,
    token_T: Tensor,
    *,
    temperature: float = 1.0,
    entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the log-prob of each token at the hidden state before it.

    Args:
        head: Of the model that the hidden states come from.
        hidden_TC: The trunk's last hidden states.
        token_T: The tokens asked about.
        temperature: Log-probs are those of ``softmax(logits / temperature)``.
        entropy: Return the entropy of each distribution as well, instead of None.
    """
    rows = max(1, CHUNK_ELEMENTS // head.weight.shape[0])
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
    return torch.cat(log_probs), torch.cat(entropies) if entropy else None


def _of_chunk(
    head: Head, hidden_TC: Tensor, token_T: Tensor, temperature: float, entropy: bool
) -> tuple[Tensor, Tensor | None]:
    log_probs_TV = (head.logits(hidden_TC) / temperature).log_softmax(-1)
    # The entropy first: the order in which both are computed is the order in which their
    # gradients are added up, and so decides the last bits of every published run.
    entropy_T = -(log_probs_TV.exp() * log_probs_TV).sum(-1) if entropy else None
    return log_probs_TV.gather(-1, token_T.unsqueeze(-1)).squeeze(-1), entropy_T


def logit_scaling(config: Any) -> tuple[float, float | None]:
    """Return what some families do to logits after the head: a factor, and a soft cap or None."""
    scale = float(getattr(config, "logit_scale", None) or 1.0)
    scale /= float(getattr(config, "logits_scaling", None) or 1.0)
    return scale, getattr(config, "final_logit_softcapping", None)


def scale_logits(logits_TV: Tensor, scale: float, softcap: float | None) -> Tensor:
    """Return the logits after ``logit_scaling``."""
    if scale != 1.0:
        logits_TV = logits_TV * scale
    return logits_TV if softcap is None else torch.tanh(logits_TV / softcap) * softcap
