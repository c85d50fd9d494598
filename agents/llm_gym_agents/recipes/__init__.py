"""Runs worth repeating, each a config with its expected result.

``llm-gym train text-game-easy`` runs one by name; any of its settings can be changed on the
command line. They live inside the package, so that an installed trainer has them too.
"""

from llm_gym_agents.recipes.recipe import Recipe

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


def find_recipe(name: str) -> Recipe | None:
    """Return the recipe called ``name``, or None."""
    if name not in NAMES:
        return None
    from llm_gym_agents.recipes import smollm2, text_game_easy

    if name == "text-game-easy":
        return text_game_easy.text_game_easy()
    return smollm2.smollm2(name.removeprefix(smollm2.PREFIX))
