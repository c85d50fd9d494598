"""``Recipe``: a run worth repeating."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from llm_gym_agents.config import ConfigStore

    Prepare = Callable[[int, bool], tuple[PreTrainedModel, PreTrainedTokenizerBase]]


class Recipe(NamedTuple):
    """A published run."""

    name: str
    about: str
    config: ConfigStore
    expected: str = ""
    """The measured result, and where it is published."""
    prepare: Prepare | None = None
    """Makes the first model from a seed, or in a hurry one of its shape; None: the config's."""
