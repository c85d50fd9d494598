"""Estimators of the KL between policy and reference, and the coefficient of a KL penalty.

With x = ref - log_prob of one sampled token, k1 = -x is unbiased and noisy; k3 = e^x - x - 1 is
unbiased, never negative and less noisy. As a *loss* neither has the right gradient. The gradient of
x²/2 is, on average, the gradient of KL(policy || reference).

Shapes: T sampled tokens of all episodes, E episodes.
"""

import math

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

# e^20 is 5e8: with larger ratios one token would dominate the batch. k3 itself is capped at 10.
_LOG_RATIO_LIMIT = 20.0
_K3_LIMIT = 10.0
# The coefficient changes by at most this share per ``horizon`` steps, whatever the error.
_MAX_ERROR = 0.2


def k3_of_log_ratio(ref_minus_log_probs_T: Tensor) -> Tensor:
    """e^x - x - 1 of the log-ratio x, capped."""
    x_T = ref_minus_log_probs_T.clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
    # expm1 keeps the digits that e^x - 1 loses when the policies nearly agree.
    return (x_T.expm1() - x_T).clamp(-_K3_LIMIT, _K3_LIMIT)


def kl_loss(log_prob_T: Tensor, ref_log_prob_T: Tensor) -> Tensor:
    """The k3 estimate of KL(policy || reference) per token, with the gradient of x²/2."""
    log_ratio_T = at_least_float32(log_prob_T) - at_least_float32(ref_log_prob_T)
    gradient_T = 0.5 * log_ratio_T.square()
    return gradient_T - gradient_T.detach() + k3_of_log_ratio(-log_ratio_T).detach()


@torch.no_grad()
def kl_in_rewards(
    reward_T: Tensor,
    log_prob_T: Tensor,
    ref_log_prob_T: Tensor,
    lengths_E: Tensor,
    *,
    kl_coef: float,
) -> tuple[Tensor, Tensor]:
    """Rewards minus ``kl_coef`` times the k1 estimate of each token, and the mean KL.

    The mean KL averages the means of the episodes, so that in a ``KLController`` a long episode
    counts as much as a short one.
    """
    if not reward_T.shape == log_prob_T.shape == ref_log_prob_T.shape:
        raise StreamError(
            "rewards, log-probs and reference log-probs must have one shape, "
            f"got {tuple(reward_T.shape)}, {tuple(log_prob_T.shape)} and "
            f"{tuple(ref_log_prob_T.shape)}"
        )
    kl_T = widen(at_least_float32(log_prob_T) - at_least_float32(ref_log_prob_T))
    dtype = result_dtype(reward_T, log_prob_T)
    played = (lengths_E > 0).sum().clamp(min=1)
    mean_kl = segment_mean(kl_T, lengths_E).sum() / played
    return (widen(reward_T) - kl_coef * kl_T).to(dtype), mean_kl.to(dtype)


class KLController:
    """Holds ``kl_coef`` and, if adaptive, moves it until the KL is at ``target_kl``.

    Args:
        init_kl_coef: The first coefficient.
        target_kl: The KL to aim at. Read only if adaptive.
        adaptive: False keeps the coefficient fixed.
        horizon: Steps over which a persistent error of 20 % changes the coefficient by 20 %.
            One update never counts as more steps, so that a huge batch cannot flip the sign.

    >>> controller = KLController(init_kl_coef=0.1, target_kl=6.0, adaptive=True)
    >>> controller.update(current_kl=12.0, n_steps=256)
    0.100512
    """

    def __init__(
        self,
        init_kl_coef: float = 1e-3,
        target_kl: float = 0.1,
        adaptive: bool = True,
        *,
        horizon: float = 10_000,
    ) -> None:
        if not (math.isfinite(init_kl_coef) and init_kl_coef >= 0.0):
            raise ConfigError(f"init_kl_coef must be at least 0, got {init_kl_coef}")
        if adaptive and not target_kl > 0.0:
            raise ConfigError(f"target_kl must be above 0, got {target_kl}")
        if adaptive and not horizon > 0.0:
            raise ConfigError(f"horizon must be above 0, got {horizon}")
        self.kl_coef = float(init_kl_coef)
        self.target_kl, self.adaptive, self.horizon = target_kl, adaptive, horizon

    def update(self, current_kl: float | Tensor, n_steps: int) -> float:
        """Move the coefficient after ``n_steps`` episodes at ``current_kl``; return it.

        Call it after the coefficient was used, so that a batch is penalised with the earlier
        coefficient. A NaN raises, because it would stay in the coefficient forever.
        """
        if not math.isfinite(float(current_kl)) or n_steps < 0:
            raise ConfigError(
                "current_kl must be finite and n_steps at least 0, "
                f"got current_kl={float(current_kl)} and n_steps={n_steps}"
            )
        if self.adaptive:
            error = min(max(float(current_kl) / self.target_kl - 1.0, -_MAX_ERROR), _MAX_ERROR)
            self.kl_coef *= 1.0 + error * min(n_steps / self.horizon, 1.0)
        return self.kl_coef
