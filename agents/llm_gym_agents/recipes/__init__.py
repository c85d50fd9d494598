"""Runs worth repeating, each a function with its expected result.

``llm-gym train text-game-easy`` runs one by name; any of its settings can be changed on the
command line. They live inside the package, so that an installed trainer has them too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


def find_recipe(name: str) -> Recipe | None:
    """Return the recipe called ``name``, or None."""
    from llm_gym_agents.recipes import text_game_easy

    known: dict[str, Callable[[], Any]] = {"text-game-easy": text_game_easy.text_game_easy}
    return known[name]() if name in known else None


NAMES = ("text-game-easy",)
