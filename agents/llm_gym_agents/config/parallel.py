"""How the learner is spread over processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llm_gym_agents.config.section import Section


@dataclass(kw_only=True)
class ParallelConfig(Section, section="parallel"):
    """How the learner is spread over the processes that torchrun starts, one for each GPU."""

    mode: Literal["none", "ddp", "fsdp"] = "none"
    """ddp keeps all weights on each GPU and reads a part of the batch; fsdp spreads weights,
    gradients and optimizer over the GPUs as well."""
