"""``Recipe``: what a run worth repeating says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym_agents.config import ConfigStore

Prepare = Callable[[ConfigStore, bool], tuple[PreTrainedModel, PreTrainedTokenizerBase]]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A published run."""

    name: str
    about: str
    expected: str
    """What it reached when it was measured, and where that is written down."""
    config: ConfigStore
    prepare: Prepare | None = None
    """Makes the model that training begins with, or in a hurry one that only has its shape; None
    takes the one that the config names."""
