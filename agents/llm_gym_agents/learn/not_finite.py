"""A loss or a gradient that is no number any more ends the update before the weights change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from safetensors.torch import save_file
from tensordict import TensorDict

from llm_gym.errors import LLMGymError
from llm_gym_agents.batch.ppo_batch import PPOBatch


class NotFiniteError(LLMGymError, ArithmeticError):
    """A loss or gradient is NaN or infinite. ``batch`` is the micro-batch that showed it."""

    batch: TensorDict | None = None
    """None where another process has it."""

    def saved(self, place: Path) -> NotFiniteError:
        """Write the batch to ``place``; return the error that also says where it is."""
        if self.batch is None:
            return self
        place.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.contiguous() for name, tensor in self.batch.items()}, place)
        told = NotFiniteError(f"{self}; the batch is in {place}")
        told.batch = self.batch
        return told


def check_finite(values: Sequence[float], micros: Sequence[PPOBatch], what: str) -> None:
    """Raise for the first of ``values`` that is not finite; ``micros`` are what they came of."""
    for value, micro in zip(values, micros, strict=True):
        if not math.isfinite(value):
            error = NotFiniteError(
                f"the {what} must be finite, got {value}; nothing was stepped. Lower the learning "
                "rate, or look at the batch"
            )
            error.batch = micro.detach().to_tensordict()
            raise error


def check_others(broken: float) -> None:
    """Raise where ``broken`` losses of other processes are not finite: all stop together."""
    if broken:
        raise NotFiniteError(
            "the loss must be finite, got another in a process that learns with this one, which "
            "says more; nothing was stepped"
        )
