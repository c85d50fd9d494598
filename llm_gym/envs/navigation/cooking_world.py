"""Read the recipe, collect its ingredients, cut and cook them as it says, and eat the meal."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from llm_gym import Outcome, lose, setting
from llm_gym.envs.navigation.cooking_world_kitchen import (
    COOKS,
    CUTS,
    FOODS,
    KITCHEN,
    KITCHEN_VERBS,
    KNIFE,
    MEAL,
    Cook,
    Kitchen,
    draw_kitchen,
    draw_recipe,
    food_in,
    understand,
)
from llm_gym.envs.navigation.text_game import words
from llm_gym.envs.navigation.text_game.base import Style, WorldEnv
from llm_gym.envs.navigation.text_game.solver import Notes, explore, take_notes, there
from llm_gym.envs.navigation.text_game.view import View
from llm_gym.envs.navigation.text_game.world import Command

_RECIPE = re.compile(r"prepare and eat a meal of (.*)")


def cook_by_the_text(observations: Sequence[str], moves: Sequence[str]) -> str:
    """Return the next move of a good player who knows only the observations.

    The player finds the kitchen, reads the cookbook, does what can be done in the current room,
    fetches ingredients it has seen, and otherwise opens containers and explores.
    """
    notes, view = take_notes(observations, moves)
    if MEAL in view.carried:
        return f"eat {MEAL}"
    found = _RECIPE.search(view.quest)
    if found is None:
        if KITCHEN not in notes.exits:
            return explore(notes, view)
        return there(notes, view, KITCHEN) or "read cookbook"
    return next(_ideas(notes, view, found[1].split(", ")))


def _ideas(notes: Notes, view: View, recipe: list[str]) -> Iterator[str]:
    """Yield helpful moves, the cheapest first."""
    carried = {food_in(name): name for name in view.carried if food_in(name)}
    missing = {
        food_in(target): set(target.split()) - set(carried.get(food_in(target), "").split())
        for target in recipe
    }
    to_cut = [(food, cut) for food in missing for cut in CUTS if CUTS[cut] in missing[food]]
    if KNIFE in view.carried:
        yield from (f"{cut} {carried[food]}" for food, cut in to_cut if food in carried)
    if view.room == KITCHEN:
        for food in [food for food in missing if food in carried]:
            yield from (f"{verb} {carried[food]}" for verb in COOKS if COOKS[verb] in missing[food])
    wanted = {target for target in missing if target not in carried}
    if to_cut and KNIFE not in view.carried:
        wanted.add(KNIFE)
    known = {food_in(item) or item: room for item, room in notes.seen.items()}
    for item in sorted(wanted & known.keys(), key=lambda item: (known[item] != view.room, item)):
        yield there(notes, view, known[item]) or f"take {item}"
    if wanted:
        for box, room in sorted(notes.closed.items(), key=lambda entry: entry[1] != view.room):
            yield there(notes, view, room) or f"open {box}"
        yield explore(notes, view)
    yield there(notes, view, KITCHEN) or f"prepare {MEAL}"


class CookingWorldEnv(WorldEnv):
    """Cook a meal by the cookbook and eat it.

    Description:
        A cookbook in the kitchen holds a recipe. Its ingredients are in rooms and closed
        containers of the house, among other food. The player must cut them with the knife (slice,
        dice or chop) and cook them (fry, roast or grill) as the recipe says. This game follows
        the cooking challenge of TextWorld.

    Actions:
        TextGame's ``go``, ``take``, ``drop``, ``open``, ``put``, ``look`` and ``inventory``;
        ``read cookbook``; ``slice``, ``dice`` or ``chop carrot``; ``fry``, ``roast`` or
        ``grill carrot`` (also ``cook carrot with stove``, ``oven`` or ``grill``);
        ``prepare meal``; ``eat meal``.

    Observations:
        The result of the last move, then the room: exits, items, inventory, quest and turns left.
        The quest includes the recipe once the player has read it. ``style="terse"`` says the same
        in few words.

    Rewards:
        1 for eating the meal, otherwise 0. With ``shaping``, the potential is the ``progress``
        along the planner's solution.

    Episode end:
        Terminates when the meal is eaten (won), when an ingredient is cut or cooked differently
        from the recipe (lost) and after ``max_turns`` turns (lost).

    Args:
        rooms: Rooms of the house, 1 to 24; one is the kitchen.
        ingredients: Ingredients of the recipe, 1 to 5.
        distractors: Other food, 0 to 10.
        containers: Closed containers that food may be in, 0 to 6.
        cut: Whether the recipe asks for cutting.
        cook: Whether the recipe asks for cooking.
        style: ``prose`` or ``terse``.
        max_turns: Turns allowed, at least ``ingredients`` + 3. Houses that need more turns are
            drawn again; if almost all do, the settings are an error.
        **common: See ``TextEnv``.
    """

    verbs = KITCHEN_VERBS
    _world: Kitchen

    rooms: int = setting(6, 1, len(words.ROOMS))
    ingredients: int = setting(3, 1, 5)
    distractors: int = setting(4, 0, 10)
    containers: int = setting(1, 0, len(words.CONTAINERS))
    cut: bool = setting(True)
    cook: bool = setting(True)
    style: Style = setting("prose")
    max_turns: int = setting(60)

    def check_settings(self) -> None:
        self.check_range("max_turns", self.ingredients + 3, why="to take each, read, prepare, eat")
        self.check_winnable()

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        rooms, ingredients = round(1 + 10 * difficulty), round(1 + 4 * difficulty)
        containers = round(3 * difficulty)
        return {
            "rooms": rooms,
            "ingredients": ingredients,
            "distractors": round(10 * difficulty),
            "containers": containers,
            "cut": difficulty >= 0.25,
            "cook": difficulty >= 0.125,
            "max_turns": 10 + 6 * ingredients + 2 * containers + rooms * (ingredients + 1),
        }

    # --- the game ------------------------------------------------------------------------

    def draw_world(self, rng: np.random.Generator) -> tuple[Kitchen, Cook]:
        kitchen = draw_kitchen(
            rng,
            self.rooms,
            self.ingredients,
            self.distractors,
            self.containers,
            self.cut,
            self.cook,
        )
        return kitchen, Cook()

    def most_turns(self) -> int:
        # Read, fetch the knife, prepare and eat; then fetch, open, cut and cook; each with a walk.
        deeds = 4 + self.ingredients * (1 + self.cut + self.cook) + self.containers
        return deeds + self.rooms * (self.ingredients + 3)

    def rules_text(self) -> str:
        return (
            "You are in a house and want to eat. In the kitchen are a cookbook, a stove, an oven "
            "and a grill. Read the cookbook, carry every ingredient of the recipe, cut and cook "
            "it as the recipe says, then prepare and eat the meal. Your move is one command: go "
            "DIRECTION (north, east, south or west), take THING, drop THING, open CONTAINER, put "
            "THING in CONTAINER, read cookbook, slice FOOD, dice FOOD, chop FOOD, fry FOOD, "
            "roast FOOD, grill FOOD, prepare meal, eat meal, look "
            "or inventory. To cut you need the knife; to cook and to prepare you must be in the "
            "kitchen. What the recipe names plainly stays as it is: cutting or cooking an "
            "ingredient in another way than the recipe says loses the game."
        )

    def example_moves(self) -> Sequence[str]:
        treated = [f"{verb} {FOODS[0]}" for verb in ("take", "slice", "fry")]
        return [*super().example_moves(), "read cookbook", *treated, "prepare meal", "eat meal"]

    def view(self) -> View:
        view = super().view()
        if self._world.known:
            view.quest = f"prepare and eat a meal of {', '.join(self._world.recipe)}"
        return view

    def understand(self, move: str) -> Command | str:
        return understand(self._world, move)

    def apply(self, move: str) -> Outcome:
        outcome = super().apply(move)
        if self._world.spoilt:
            return lose(f"{self._world.spoilt.capitalize()} is not what the recipe says: you lose.")
        return outcome

    def swap_secret(self, rng: np.random.Generator) -> bool:
        """Draw another recipe that is still possible after the moves so far."""
        world = self._world
        if world.known:
            return False
        other = draw_recipe([food_in(name) for name in world.recipe], self.cut, self.cook, rng)
        done = {food_in(name): set(name.split()) for name in world.place}
        if other == world.recipe or any(done[food_in(name)] - set(name.split()) for name in other):
            return False
        world.recipe = other
        return True

    solve = staticmethod(cook_by_the_text)
