"""A world in which food can be cut, cooked, made into a meal and eaten.

The preparation of a food is part of its name: frying a "sliced carrot" makes it a "fried sliced
carrot". So a recipe is a list of names, and the rules of the engine for items (where they are, how
they are named and found) apply to prepared food too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llm_gym.envs.navigation.text_game import words
from llm_gym.envs.navigation.text_game.commands import JOINTS, VERBS, Sentence, find, read, settle
from llm_gym.envs.navigation.text_game.generate import draw_map, pick, some
from llm_gym.envs.navigation.text_game.world import CARRIED, Command, Needs, World

KITCHEN, KNIFE, MEAL, EATEN = "kitchen", "knife", "meal", "eaten"
FOODS = (
    "carrot", "potato", "onion", "pepper", "tomato", "mushroom", "cabbage", "leek", "zucchini",
    "pumpkin", "celery", "fennel", "chicken", "salmon", "bacon", "sausage", "tofu", "cheese",
    "eggplant", "radish",
)  # fmt: skip
CUTS = {"slice": "sliced", "dice": "diced", "chop": "chopped"}
COOKS = {"fry": "fried", "roast": "roasted", "grill": "grilled"}
_DONE = CUTS | COOKS
_STATIONS = {"stove": "fry", "pan": "fry", "oven": "roast", "grill": "grill", "barbecue": "grill"}
KITCHEN_VERBS = {
    **VERBS, **{verb: verb for verb in _DONE}, "cook": "cook", "barbecue": "grill",
    "cut": "cut", "read": "read", "examine": "read", "consult": "read",
    "prepare": "prepare", "make": "prepare", "eat": "eat",
}  # fmt: skip
_JOINTS = {
    **JOINTS, "cut": {"with"}, **{verb: {"with", "in", "on", "using"} for verb in (*_DONE, "cook")},
}  # fmt: skip


def food_in(name: str) -> str:
    """Return the food in ``name``, without its preparation; empty if it names no food.

    >>> food_in("fried sliced carrot"), food_in("knife")
    ('carrot', '')
    """
    last = name.rpartition(" ")[2]
    return last if last in FOODS else ""


def prepared(name: str, adjective: str) -> str:
    """Return the name of a food after cutting or cooking: the way of cooking comes first.

    >>> prepared("sliced carrot", "fried"), prepared("fried carrot", "sliced")
    ('fried sliced carrot', 'fried sliced carrot')
    """
    if adjective in COOKS.values():
        return f"{adjective} {name}"
    before, _, food = name.rpartition(" ")
    return " ".join(filter(None, (before, adjective, food)))


def was(name: str, how: dict[str, str]) -> bool:
    """Return whether the food was prepared in one of the ways of ``how``: ``CUTS`` or ``COOKS``."""
    return any(adjective in name.split() for adjective in how.values())


@dataclass(slots=True)
class Kitchen(World):
    """A world with a recipe."""

    recipe: tuple[str, ...] = ()
    """Names of the items that the player must carry to prepare the meal."""
    known: bool = False
    """Whether the player has read the recipe."""
    spoilt: str = ""
    """An ingredient that was cut or cooked differently from the recipe."""

    def is_ready(self) -> bool:
        return all(self.place.get(name) == CARRIED for name in self.recipe)

    def usable(self) -> list[Command]:
        """Return every command that changes something here and now."""
        commands = World.usable(self)  # ``super()`` does not work in a class with slots
        carried = self.items_in(CARRIED)
        foods = [name for name in carried if food_in(name)]
        if KNIFE in carried:
            whole = [name for name in foods if not was(name, CUTS)]
            commands += [Command(verb, name) for name in whole for verb in CUTS]
        if self.here == KITCHEN:
            raw = [name for name in foods if not was(name, COOKS)]
            commands += [Command(verb, name) for name in raw for verb in COOKS]
            if not self.known:
                commands.append(Command("read", "cookbook"))
            elif self.is_ready():
                commands.append(Command("prepare", MEAL))
        if MEAL in carried:
            commands.append(Command("eat", MEAL))
        return commands

    def do(self, command: Command) -> None:
        """Carry out a command that ``usable`` lists."""
        verb, noun, _ = command
        if verb in _DONE:
            name = prepared(noun, _DONE[verb])
            self.place[name] = self.place.pop(noun)
            wanted = next((end for end in self.recipe if food_in(end) == food_in(name)), name)
            if not set(name.split()) <= set(wanted.split()):
                self.spoilt = name
        elif verb == "read":
            self.known = True
        elif verb == "prepare":
            for name in self.recipe:
                del self.place[name]
            self.place[MEAL] = CARRIED
        elif verb == "eat":
            self.place[MEAL] = EATEN
        else:
            World.do(self, command)


# --- commands ----------------------------------------------------------------------------------


def understand(kitchen: Kitchen, text: str) -> Command | str:
    """Return the usable command that ``text`` means, or the reason why there is none."""
    sentence = read(text, KITCHEN_VERBS, _JOINTS)
    if sentence is None:
        return "I do not know that command."
    verb, noun, other = sentence
    if verb == "cook":
        verb = _STATIONS.get(other, "")
        if not verb:
            return "Say how to cook it: fry, roast or grill."
    if verb in _DONE:
        return _treat(kitchen, verb, noun)
    if verb == "cut":
        return "Say how to cut it: slice, dice or chop."
    if verb in ("read", "prepare"):
        return {"read": _read, "prepare": _prepare}[verb](kitchen, noun)
    if verb == "eat":
        edible = find(noun, kitchen.items_in(CARRIED)) == MEAL
        return Command("eat", MEAL) if edible else "You can eat only the meal, once it is prepared."
    return settle(kitchen, Sentence(verb, noun, other))


def _treat(kitchen: Kitchen, verb: str, noun: str) -> Command | str:
    how, done = (CUTS, "cut") if verb in CUTS else (COOKS, "cooked")
    name = find(noun, kitchen.items_in(CARRIED))
    if name is None:
        return "You do not carry that."
    if not food_in(name):
        return f"The {name} cannot be {done}."
    if verb in CUTS and kitchen.place[KNIFE] != CARRIED:
        return "You need the knife."
    if verb in COOKS and kitchen.here != KITCHEN:
        return "You can cook only in the kitchen."
    return f"The {name} is already {done}." if was(name, how) else Command(verb, name)


def _read(kitchen: Kitchen, noun: str) -> Command | str:
    if kitchen.here != KITCHEN or noun not in ("cookbook", "recipe", "book", ""):
        return "There is nothing like that to read here."
    return Command("read", "cookbook")


def _prepare(kitchen: Kitchen, noun: str) -> Command | str:
    if noun not in (MEAL, ""):
        return "You can prepare only the meal."
    if kitchen.here != KITCHEN:
        return "You can prepare the meal only in the kitchen."
    if not kitchen.known:
        return "You do not know the recipe: read the cookbook."
    if not kitchen.is_ready():
        return "You do not carry all that the recipe asks for, cut and cooked as it says."
    return Command("prepare", MEAL)


_OTHER_ROOMS = tuple(room for room in words.ROOMS if room != KITCHEN)


def draw_kitchen(
    rng: np.random.Generator,
    rooms: int,
    ingredients: int,
    distractors: int,
    containers: int,
    cut: bool,
    cook: bool,
) -> Kitchen:
    """Return a house with a kitchen, food in its rooms and containers, and a recipe."""
    names = some([KITCHEN, *some(_OTHER_ROOMS, rooms - 1, rng)], rooms, rng)
    exits, _ = draw_map(names, rng)
    foods = some(FOODS, ingredients + distractors, rng)
    boxes = {box: pick(names, rng) for box in some(words.CONTAINERS, containers, rng)}
    places = [*names, *boxes]
    return Kitchen(
        exits,
        here=names[0],
        place={KNIFE: KITCHEN, **{food: pick(places, rng) for food in foods}},
        containers=boxes,
        closed=dict.fromkeys(boxes, True),
        recipe=draw_recipe(foods[:ingredients], cut, cook, rng),
    )


def draw_recipe(
    foods: list[str], cut: bool, cook: bool, rng: np.random.Generator
) -> tuple[str, ...]:
    """Return a preparation of each food; at least one is cut and one cooked, if allowed."""
    names = []
    for at, food in enumerate(foods):
        name = food
        for may, how, first in ((cut, CUTS, at == 0), (cook, COOKS, at == len(foods) - 1)):
            ways = [*how.values()] if first else ["", *how.values()]
            if may and (way := pick(ways, rng)):
                name = prepared(name, way)
        names.append(name)
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Cook:
    """Cook the meal and eat it."""

    def is_done(self, world: World) -> bool:
        return world.place.get(MEAL) == EATEN

    def ask(self, needs: Needs) -> None:
        kitchen, chores = needs.world, needs.chores
        assert isinstance(kitchen, Kitchen)
        if MEAL in kitchen.place:
            needs.item(MEAL)
            if kitchen.place[MEAL] == CARRIED:
                chores.append((Command("eat", MEAL), kitchen.here))
            return
        if not kitchen.known:
            chores.append((Command("read", "cookbook"), KITCHEN))
        elif kitchen.is_ready():
            chores.append((Command("prepare", MEAL), KITCHEN))
        for target in kitchen.recipe:
            _ask_for(target, kitchen, needs)

    def __str__(self) -> str:
        return "cook the meal of the cookbook in the kitchen and eat it"


def _ask_for(target: str, kitchen: Kitchen, needs: Needs) -> None:
    # The current name of the ingredient that must become ``target``.
    name = next(name for name in kitchen.place if food_in(name) == food_in(target))
    needs.item(name)
    missing = set(target.split()) - set(name.split())
    for verb, adjective in CUTS.items():
        if adjective in missing:
            needs.item(KNIFE)
            if kitchen.place[name] == kitchen.place[KNIFE] == CARRIED:
                needs.chores.append((Command(verb, name), kitchen.here))
    for verb, adjective in COOKS.items():
        if adjective in missing and kitchen.place[name] == CARRIED:
            needs.chores.append((Command(verb, name), KITCHEN))
