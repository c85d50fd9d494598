"""Runs worth repeating, each a config with its expected result.

``llm-gym train text-game-easy`` runs one by name; any of its settings can be changed on the
command line. They live inside the package, so that an installed trainer has them too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from llm_gym_agents.config import ConfigStore

    Prepare = Callable[[int, bool], tuple[PreTrainedModel, PreTrainedTokenizerBase]]

NAMES = (
    "text-game-easy",
    "smollm2-text-game-easy",
    "smollm2-text-game-medium",
    "smollm2-frozen-lake",
    "smollm2-guess-the-number-easy",
    "smollm2-guess-the-number",
    "smollm2-maze-easy",
    "smollm2-sokoban-easy",
    "smollm2-search-qa-easy",
    "smollm2-search-qa",
)


class Recipe(NamedTuple):
    """A published run."""

    name: str
    about: str
    config: ConfigStore
    expected: str = ""
    """The measured result, and where it is published."""
    prepare: Prepare | None = None
    """Makes the first model from a seed, or in a hurry one of its shape; None: the config's."""


def find_recipe(name: str) -> Recipe | None:
    """Return the recipe called ``name``, or None."""
    if name not in NAMES:
        return None
    from llm_gym_agents.recipes import smollm2, text_game_easy

    if name == "text-game-easy":
        return text_game_easy.text_game_easy()
    return smollm2.smollm2(name.removeprefix(smollm2.PREFIX))
