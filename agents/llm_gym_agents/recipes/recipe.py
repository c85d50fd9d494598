"""What a published run is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from llm_gym_agents.config import ConfigStore

    Prepare = Callable[[ConfigStore, bool], tuple[PreTrainedModel, PreTrainedTokenizerBase]]


class Recipe(NamedTuple):
    """A published run."""

    name: str
    about: str
    config: ConfigStore
    expected: str = ""
    """What it reached when it was measured, and where that is written down."""
    prepare: Prepare | None = None
    """Makes the initial model, or in a hurry one of its shape; None takes the config's."""
