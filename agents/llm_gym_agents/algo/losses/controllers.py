"""The coefficient of a KL penalty, fixed or steered towards a target."""

from __future__ import annotations

import math
from typing import TypedDict

from torch import Tensor

from llm_gym.core.errors import ConfigError

# The coefficient changes by at most this share per ``horizon`` steps, whatever the error.
_MAX_ERROR = 0.2


class KLControllerState(TypedDict):
    """What a checkpoint must hold to go on with the same coefficient."""

    kl_coef: float


class KLController:
    """Holds ``kl_coef`` and, if adaptive, moves it until the KL is at ``target_kl``.

    Args:
        init_kl_coef: The first coefficient.
        target_kl: The KL to aim at. Read only if adaptive.
        adaptive: False keeps the coefficient fixed.
        horizon: Steps over which a persistent error of 20 % changes the coefficient by 20 %.
            One update never counts as more, so that a huge batch cannot turn the sign.

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

        Call it after the coefficient was used, so that a batch is penalised with the one from
        before. A KL that is not a number raises: it would poison the coefficient for good.
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

    def state_dict(self) -> KLControllerState:
        """The part that changes while training; the settings come from the config."""
        return {"kl_coef": self.kl_coef}

    def load_state_dict(self, state: KLControllerState) -> None:
        """Go on from ``state``."""
        self.kl_coef = float(state["kl_coef"])
