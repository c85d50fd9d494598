"""Drawing a kitchen and its recipe, and the plan that cooks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from llm_gym.envs.navigation.cooking_world.kitchen import (
    COOKS,
    CUTS,
    EATEN,
    FOODS,
    KITCHEN,
    KNIFE,
    MEAL,
    Kitchen,
    prepared,
)
from llm_gym.envs.navigation.text_game import words
from llm_gym.envs.navigation.text_game.generate import draw_map, pick, some
from llm_gym.envs.navigation.text_game.quest import Needs
from llm_gym.envs.navigation.text_game.world import CARRIED, Command, World

_OTHER_ROOMS = tuple(room for room in words.ROOMS if room != KITCHEN)


class KitchenSize(NamedTuple):
    """What decides how large an instance is."""

    rooms: int
    ingredients: int
    distractors: int
    containers: int
    cut: bool
    cook: bool


def draw_kitchen(size: KitchenSize, rng: np.random.Generator) -> Kitchen:
    """Return a house with a kitchen, food in its rooms and containers, and a recipe."""
    rooms = some([KITCHEN, *some(_OTHER_ROOMS, size.rooms - 1, rng)], size.rooms, rng)
    exits, _ = draw_map(rooms, rng)
    foods = some(FOODS, size.ingredients + size.distractors, rng)
    boxes = {box: pick(rooms, rng) for box in some(words.CONTAINERS, size.containers, rng)}
    places = [*rooms, *boxes]
    return Kitchen(
        exits,
        here=rooms[0],
        place={KNIFE: KITCHEN, **{food: pick(places, rng) for food in foods}},
        containers=boxes,
        closed=dict.fromkeys(boxes, True),
        recipe=draw_recipe(foods[: size.ingredients], size.cut, size.cook, rng),
    )


def draw_recipe(
    foods: list[str], cut: bool, cook: bool, rng: np.random.Generator
) -> tuple[str, ...]:
    """Return a preparation of each food; at least one is cut and one cooked, where they may be."""
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
        """Return whether the meal was eaten."""
        return world.place.get(MEAL) == EATEN

    def ask(self, needs: Needs) -> None:
        """Add what brings the meal closer."""
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
    name = kitchen.form_of(target)
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
