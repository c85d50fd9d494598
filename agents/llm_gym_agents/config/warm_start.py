"""What a model learns by imitation before the first iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llm_gym_agents.config.fields import Count, Positive, Text, Whole
from llm_gym_agents.config.section import Section


@dataclass(kw_only=True)
class WarmStartConfig(Section, section="warm_start"):
    """What a model imitates before the first iteration, so that there is something to choose."""

    player: Literal["auto", "random", "solver", "file", "none"] = "none"
    """Whose moves: random legal ones, a solver's, those of a file; auto takes random ones for the
    embedded model, and for a given one that writes too few moves that can be used."""
    turns: Count = 4000
    """Moves to collect."""
    steps: Count = 200
    """Optimizer steps."""
    rounds: Count = 1
    """Most times that so many moves are collected and so many steps taken: once more as long as
    more than a tenth of the replies cannot be used, and a round makes a quarter of them usable; who
    imitates a solver, until nine of ten episodes are won."""
    rate: Positive = 3e-3
    """Step size of AdamW."""
    critic_iters: Whole = 0
    """First iterations after imitating a solver in which only the critic learns, a quarter of the
    run at most, if that is more than training.critic_warmup_iters."""
    rl_rate_factor: Positive = 1.0
    """Factor on the learning rates of reinforcement learning after imitating a solver."""
    file: Text | None = None
    """Conversations to imitate, as llm-gym sft-data writes them."""
