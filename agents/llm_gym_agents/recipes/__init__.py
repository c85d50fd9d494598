"""Runs worth repeating, each a function with its expected result.

``llm-gym train text-game-easy`` runs one by name; any of its settings can be changed on the
command line. They live inside the package, so that an installed trainer has them too.
"""

from __future__ import annotations

from collections.abc import Callable

from llm_gym_agents.recipes.recipe import Recipe

__all__ = ["NAMES", "Recipe", "find_recipe"]


def find_recipe(name: str) -> Recipe | None:
    """Return the recipe called ``name``, or None."""
    from llm_gym_agents.recipes import text_game_easy

    known: dict[str, Callable[[], Recipe]] = {"text-game-easy": text_game_easy.text_game_easy}
    return known[name]() if name in known else None


NAMES = ("text-game-easy",)
