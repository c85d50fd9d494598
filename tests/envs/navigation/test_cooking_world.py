"""CookingWorld: a kitchen drawn by hand, one test per rule, and properties of drawn ones."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.envs.navigation.cooking_world import CookingWorldEnv
from llm_gym.envs.navigation.cooking_world_kitchen import (
    COOKS,
    CUTS,
    KITCHEN,
    KNIFE,
    Cook,
    Kitchen,
    draw_kitchen,
    food_in,
)
from llm_gym.envs.navigation.text_game.view import parse
from llm_gym.envs.navigation.text_game.world import distance
from tests.envs.playing import final_info, start_game


def house():
    """The kitchen with an onion and the knife; east of it the den, where the carrot is boxed."""
    return Kitchen(
        exits={"kitchen": {"east": "den"}, "den": {"west": "kitchen"}},
        here="den",
        place={KNIFE: KITCHEN, "onion": KITCHEN, "carrot": "box", "tofu": "den"},
        containers={"box": "den"},
        closed={"box": True},
        recipe=("fried sliced carrot", "onion"),
    )


def play(*moves, **kwargs):
    """Return the environment after ``moves`` in the house, and what the last one gave."""
    env = start_game("CookingWorld", max_turns=50, **kwargs)
    env.begin(house(), Cook())
    step = None
    for move in moves:
        step = env.step(move)
    return env, step


WALKTHROUGH = [
    "open box", "take carrot", "go west", "read cookbook", "take knife", "take onion",
    "slice carrot", "fry carrot", "prepare meal", "eat meal",
]  # fmt: skip


def test_the_recipe_is_shown_after_the_cookbook_was_read():
    env, (obs, *_) = play("go west")
    assert "Quest: cook the meal of the cookbook in the kitchen and eat it." in obs
    quest = "Quest: prepare and eat a meal of fried sliced carrot, onion."
    assert quest in env.step("read cookbook")[0]
    assert quest in env.step("go east")[0]


def test_the_name_of_food_shows_its_preparation_in_either_order():
    moves = WALKTHROUGH[:7]
    assert "You carry: knife, onion, sliced carrot." in play(*moves)[1][0]
    assert "You carry: fried sliced carrot, knife, onion." in play(*moves, "fry carrot")[1][0]
    turned = [*WALKTHROUGH[:6], "fry carrot", "slice fried carrot"]
    assert "You carry: fried sliced carrot, knife, onion." in play(*turned)[1][0]


def test_food_outside_the_recipe_may_be_cut_and_cooked():
    env, (obs, _, terminated, _, _) = play(
        "take tofu", "go west", "take knife", "dice tofu", "grill tofu"
    )
    assert not terminated
    assert "grilled diced tofu" in obs
    assert final_info(env, "oracle")["success"]


CANNOT = [
    (["read cookbook"], "There is nothing like that to read here."),
    (["go west", "read letter"], "There is nothing like that to read here."),
    (["slice carrot"], "You do not carry that."),
    (["take tofu", "slice tofu"], "You need the knife."),
    (["take tofu", "fry tofu"], "You can cook only in the kitchen."),
    (["go west", "take knife", "slice knife"], "The knife cannot be cut."),
    (["go west", "take knife", "roast knife"], "The knife cannot be cooked."),
    (["go west", "cook onion"], "Say how to cook it: fry, roast or grill."),
    (["go west", "cook onion with fire"], "Say how to cook it: fry, roast or grill."),
    (["cut onion"], "Say how to cut it: slice, dice or chop."),
    ([*WALKTHROUGH[:7], "dice carrot"], "The sliced carrot is already cut."),
    ([*WALKTHROUGH[:8], "fry carrot"], "The fried sliced carrot is already cooked."),
    (["prepare meal"], "You can prepare the meal only in the kitchen."),
    (["go west", "prepare meal"], "You do not know the recipe: read the cookbook."),
    ([*WALKTHROUGH[:7], "prepare meal"],
     "You do not carry all that the recipe asks for, cut and cooked as it says."),
    (["go west", "prepare soup"], "You can prepare only the meal."),
    (["eat meal"], "You can eat only the meal, once it is prepared."),
    (["take tofu", "eat tofu"], "You can eat only the meal, once it is prepared."),
    (["eat"], "You can eat only the meal, once it is prepared."),
    (["take carrot"], "You see nothing like that here."),
    (["order pizza"], "I do not know that command."),
    (["fry " * 100], "I do not know that command."),
    (["🍳"], "I do not know that command."),
]  # fmt: skip

READY = [move for move in WALKTHROUGH[:7] if move != "read cookbook"]
SAME = [
    ("slice the carrot with the knife", "slice carrot"),
    ("cook the carrot with the stove", "fry carrot"),
    ("Fry the sliced carrot on the stove!", "fry carrot"),
    ("cook carrot in oven", "roast carrot"),
    ("barbecue the carrot", "grill carrot"),
    ("examine cookbook", "read cookbook"),
    ("read the recipe", "read cookbook"),
]  # fmt: skip


def test_a_meal_that_was_left_somewhere_can_still_be_eaten():
    env, _ = play(*WALKTHROUGH[:9], "drop meal", "go east")
    assert env.oracle_action() == "go west"
    assert final_info(env, "oracle")["success"]


def sizes():
    return st.builds(
        dict,
        rooms=st.integers(1, 24), ingredients=st.integers(1, 5), distractors=st.integers(0, 10),
        containers=st.integers(0, 6), cut=st.booleans(), cook=st.booleans(),
    )  # fmt: skip


@given(size=sizes(), seed=st.integers(0, 10**6))
def test_every_kitchen_follows_its_settings(size, seed):
    world = draw_kitchen(np.random.default_rng(seed), **size)
    assert len(world.exits) == size["rooms"]
    assert KITCHEN in world.exits
    assert len(world.recipe) == len({food_in(name) for name in world.recipe}) == size["ingredients"]
    assert len(world.place) == size["ingredients"] + size["distractors"] + 1
    assert len(world.containers) == size["containers"]
    done = {word for name in world.recipe for word in name.split()[:-1]}
    assert bool(done & set(CUTS.values())) == size["cut"]
    assert bool(done & set(COOKS.values())) == size["cook"]
    for name in world.recipe:
        assert food_in(name) in world.place, "every ingredient is there, and raw"


@given(size=sizes(), seed=st.integers(0, 10**6), turns=st.integers(0, 40))
def test_only_a_wrong_preparation_makes_the_quest_impossible(size, seed, turns):
    rng = np.random.default_rng(seed)
    world = draw_kitchen(rng, **size)
    for _ in range(turns):
        commands = world.usable()
        before = world.clone()
        world.do(commands[int(rng.integers(len(commands)))])
        if world.spoilt:
            world = before
    assert distance(world, Cook()) >= 0  # plays the plan to its end, or never returns


def test_both_styles_describe_the_same_room_even_without_exits():
    for moves in (WALKTHROUGH[:at] for at in range(10)):
        views = [parse(play(*moves, style=style)[0].describe()) for style in ("prose", "terse")]
        assert views[0] == views[1]
        assert views[0].room
    for style, line in (("prose", "Exits: none."), ("terse", "exits none")):
        env = CookingWorldEnv(rooms=1, style=style)
        assert line in env.reset(seed=0)[0].splitlines()
        assert parse(env.describe()).exits == []


def test_legal_moves_do_not_reveal_the_unread_recipe():
    moves = [move for move in WALKTHROUGH[:8] if move != "read cookbook"]
    env, _ = play(*moves)
    assert env._world.is_ready()
    assert "prepare meal" not in env.legal_moves()
    env.step("read cookbook")
    assert "prepare meal" in env.legal_moves()
    env.step("prepare meal")
    assert "eat meal" in env.legal_moves()
