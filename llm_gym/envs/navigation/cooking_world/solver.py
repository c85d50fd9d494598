"""A good cook who knows only what was written.

Looks for the kitchen, reads the cookbook, does at once what can be done here, fetches what was
seen, and otherwise opens and explores until everything is there.
"""

import re
from collections.abc import Iterator, Sequence

from llm_gym.envs.navigation.cooking_world.kitchen import COOKS, CUTS, KITCHEN, KNIFE, MEAL, food_in
from llm_gym.envs.navigation.text_game.solver import Notes, explore, take_notes, there
from llm_gym.envs.navigation.text_game.view import View

_RECIPE = re.compile(r"prepare and eat a meal of (.*)")


def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
    """Return the next move."""
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
    """Yield what would help, what costs least first."""
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
