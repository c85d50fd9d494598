"""How far a policy has moved from a reference: per-token estimates and the exact value.

With x = ref - log_prob of one sampled token: k1 = -x is unbiased and noisy, ``abs`` and k2 =
x²/2 are biased and quiet, k3 = e^x - x - 1 is unbiased, never negative and quiet. As a *loss*
their gradients mean different things: only k2's is, on average, the gradient of KL(policy ||
reference). A trailing "+" therefore reports the named estimate and takes k2's gradient.

Shapes: T sampled tokens of all episodes, E episodes, V vocabulary entries.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo.tensor_ops import (
    StreamError,
    at_least_float32,
    result_dtype,
    segment_mean,
    widen,
)

KLKind = Literal["k1", "abs", "k2", "k3", "k1+", "abs+", "k2+", "k3+"]
KL_KINDS: tuple[str, ...] = get_args(KLKind)

# e^20 is 5e8: beyond it one token decides the batch. k3 is then capped at 10, which also stops
# its gradient; "k3+" keeps one.
_LOG_RATIO_LIMIT = 20.0
_K3_LIMIT = 10.0


def kl_estimate(log_prob_T: Tensor, ref_log_prob_T: Tensor, kind: KLKind = "k3") -> Tensor:
    """One estimate of KL(policy || reference) per sampled token.

    Args:
        log_prob_T: Log-probs of the policy that sampled, or is being trained.
        ref_log_prob_T: Log-probs of the same tokens under the reference.
        kind: ``k1``, ``abs``, ``k2`` or ``k3``; with "+" the gradient is that of ``k2``.
    """
    if kind not in KL_KINDS:
        raise ConfigError(
            f"the KL estimate must be one of {', '.join(KL_KINDS)}, got {kind!r}; "
            "full_vocabulary_kl gives the exact value from logits"
        )
    log_ratio_T = at_least_float32(log_prob_T) - at_least_float32(ref_log_prob_T)
    estimate_T = _estimate(log_ratio_T, kind.removesuffix("+"))
    if not kind.endswith("+"):
        return estimate_T
    gradient_T = 0.5 * log_ratio_T.square()
    return gradient_T - gradient_T.detach() + estimate_T.detach()


def k3_of_log_ratio(ref_minus_log_probs_T: Tensor) -> Tensor:
    """e^x - x - 1 of the log-ratio x, capped."""
    x_T = ref_minus_log_probs_T.clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
    # expm1 keeps the digits that e^x - 1 loses when the policies nearly agree.
    return (x_T.expm1() - x_T).clamp(-_K3_LIMIT, _K3_LIMIT)


def full_vocabulary_kl(logits_TV: Tensor, ref_logits_TV: Tensor) -> Tensor:
    """The exact KL(policy || reference) at each token, from both models' logits.

    Memory grows with T * V: call it on chunks of tokens. A vocabulary entry that the policy
    forbids (logit -inf) adds nothing.
    """
    log_p_TV = at_least_float32(logits_TV).log_softmax(-1)
    log_q_TV = at_least_float32(ref_logits_TV).log_softmax(-1)
    p_TV = log_p_TV.exp()
    gap_TV = torch.where(p_TV > 0, log_p_TV - log_q_TV, 0.0)
    return (p_TV * gap_TV).sum(-1)


def kl_in_rewards(
    reward_T: Tensor,
    log_prob_T: Tensor,
    ref_log_prob_T: Tensor,
    lengths_E: Tensor,
    *,
    kl_coef: float,
    kind: KLKind = "k1",
) -> tuple[Tensor, Tensor]:
    """Rewards minus ``kl_coef`` times the KL of each token, and the mean KL.

    The mean is over episodes of each episode's mean, which is what a ``KLController`` is fed:
    a long episode does not steer the coefficient more than a short one.
    """
    if not reward_T.shape == log_prob_T.shape == ref_log_prob_T.shape:
        raise StreamError(
            "rewards, log-probs and reference log-probs must have one shape, "
            f"got {tuple(reward_T.shape)}, {tuple(log_prob_T.shape)} and "
            f"{tuple(ref_log_prob_T.shape)}"
        )
    with torch.no_grad():
        kl_T = widen(kl_estimate(log_prob_T, ref_log_prob_T, kind))
        dtype = result_dtype(reward_T, log_prob_T)
        played = (lengths_E > 0).sum().clamp(min=1)
        mean_kl = segment_mean(kl_T, lengths_E).sum() / played
        return (widen(reward_T) - kl_coef * kl_T).to(dtype), mean_kl.to(dtype)


def _estimate(log_ratio_T: Tensor, kind: str) -> Tensor:
    if kind == "k1":
        return log_ratio_T
    if kind == "abs":
        return log_ratio_T.abs()
    if kind == "k2":
        return 0.5 * log_ratio_T.square()
    return k3_of_log_ratio(-log_ratio_T)
