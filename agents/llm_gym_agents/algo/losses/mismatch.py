"""Importance weights for the mismatch between sampler and trainer, and its size.

An inference engine uses other kernels and another precision than the trainer. So a token that was
sampled with probability mu has another probability pi in the trainer's no-grad pass. PPO clips the
ratio of the new policy to pi; the remaining factor pi / mu is an importance weight. It is
truncated, because one token in thousands can have a ratio in the hundreds.

Shapes: T sampled tokens of all episodes.
"""

import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo.losses.kl import k3_of_log_ratio
from llm_gym_agents.algo.losses.policy_loss import token_log_ratio
from llm_gym_agents.algo.tensor_ops import StreamError, mean

IMPORTANCE_CAP = 2.0


@torch.no_grad()
def importance_weights(
    old_log_prob_T: Tensor,
    sampler_log_prob_T: Tensor,
    *,
    cap: float = IMPORTANCE_CAP,
    checked: bool = False,
) -> Tensor:
    """min(exp(old - sampler), cap) per token, without a gradient.

    Args:
        old_log_prob_T: Log-probs of the trainer's no-grad pass before the update.
        sampler_log_prob_T: Log-probs that the engine recorded when it sampled.
        cap: The largest weight.
        checked: Skip the search for NaN in the sampler's log-probs, which makes a GPU wait.

    >>> importance_weights(torch.tensor([-1.0, -1.0]), torch.tensor([-1.0, -9.0]))
    tensor([1., 2.])
    """
    if not cap > 0.0:
        raise ConfigError(f"the importance cap must be above 0, got {cap}; None turns it off")
    if not checked:
        check_numbers(sampler_log_prob_T)
    return _log_ratio(old_log_prob_T, sampler_log_prob_T).exp().clamp(max=cap)


@torch.no_grad()
def mismatch_metrics(
    old_log_prob_T: Tensor, sampler_log_prob_T: Tensor, *, cap: float | None = IMPORTANCE_CAP
) -> dict[str, Tensor]:
    """Metrics of the mismatch between sampler and trainer, over a whole batch.

    ``mismatch/kl`` estimates KL(sampler || trainer) with k3, which is never negative and has
    little variance; ``mismatch/log_prob_*`` are absolute differences of log-probabilities;
    ``mismatch/ess`` is the effective sample size, as a share of the tokens, under the weights
    truncated at ``cap``; None means no weights.
    """
    check_numbers(sampler_log_prob_T)
    log_ratio_T = _log_ratio(old_log_prob_T, sampler_log_prob_T)
    ratio_T = log_ratio_T.exp()
    weights_T = torch.ones_like(ratio_T) if cap is None else ratio_T.clamp(max=cap)
    gap_T = log_ratio_T.abs()
    squares = mean(weights_T.square())
    zero = ratio_T.new_zeros(())
    return {
        "mismatch/kl": mean(k3_of_log_ratio(log_ratio_T)),
        "mismatch/log_prob_mean": mean(gap_T),
        "mismatch/log_prob_max": gap_T.max() if gap_T.numel() else zero,
        "mismatch/ratio_mean": mean(ratio_T),
        "mismatch/ratio_max": ratio_T.max() if ratio_T.numel() else zero,
        "mismatch/truncated": mean((ratio_T > (cap or torch.inf)).to(ratio_T)),
        "mismatch/ess": torch.where(
            squares > 0, mean(weights_T).square() / squares.clamp(min=1e-30), zero
        ),
    }


def check_numbers(sampler_log_prob_T: Tensor) -> None:
    """Raise unless the sampler gave a number for every token."""
    broken = int(sampler_log_prob_T.isnan().sum())
    if broken:
        raise StreamError(
            f"the sampler's log-probs must be numbers, got {broken} of "
            f"{sampler_log_prob_T.numel()} without a ratio; ask the engine for the log-prob of "
            "every sampled token"
        )


def _log_ratio(old_log_prob_T: Tensor, sampler_log_prob_T: Tensor) -> Tensor:
    if old_log_prob_T.shape != sampler_log_prob_T.shape:
        raise StreamError(
            "the sampler's log-probs must match the trainer's, "
            f"got {tuple(sampler_log_prob_T.shape)} for {tuple(old_log_prob_T.shape)}"
        )
    return token_log_ratio(old_log_prob_T, sampler_log_prob_T)
