"""TextGame: one test per rule, on a world drawn by hand, and properties of drawn ones."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.envs.navigation.coin_collector import ROOMS as COIN_ROOMS
from llm_gym.envs.navigation.cooking_world_kitchen import FOODS, KNIFE, MEAL
from llm_gym.envs.navigation.text_game import words
from llm_gym.envs.navigation.text_game.commands import read
from llm_gym.envs.navigation.text_game.generate import generate, longest_quest
from llm_gym.envs.navigation.text_game.view import look, parse, prose, terse
from llm_gym.envs.navigation.text_game.world import Quest, World, distance, objective
from tests.envs.playing import final_info, start_game


def house():
    """hall - kitchen (east), hall - den (north, behind the brass door); the troll is in the den."""
    return World(
        exits={
            "hall": {"north": "den", "east": "kitchen"},
            "kitchen": {"west": "hall"},
            "den": {"south": "hall"},
        },
        here="hall",
        place={"brass key": "chest", "axe": "kitchen", "crown": "den", "lamp": "hall"},
        containers={"chest": "kitchen", "box": "hall"},
        closed={"chest": True, "box": False},
        doors={"brass door": ("hall", "den")},
        keys={"brass door": "brass key"},
        locked={"brass door": True},
        monsters={"troll": "den"},
        banes={"troll": "axe"},
    )


def play(*moves, target="kitchen", **kwargs):
    """Return the environment after ``moves`` in the house, and what the last one gave."""
    quest = Quest("crown", target, "kitchen")
    state = {"_world": house(), "_start": house(), "_quest": quest, "_visited": {"hall"}}
    env = start_game("TextGame", max_turns=50, **state, **kwargs)
    step = None
    for move in moves:
        step = env.step(move)
    return env, step


WALKTHROUGH = [
    "go east", "open chest", "take brass key", "take axe", "go west",
    "unlock brass door with brass key", "go north", "attack troll", "take crown",
    "go south", "go east", "drop crown",
]  # fmt: skip


CANNOT = [
    (["go north"], "The brass door is locked."),
    (["go south"], "There is no exit that way."),
    (["go home"], "Say which way to go."),
    (["take crown"], "You see nothing like that here."),
    (["take lamp", "take lamp"], "You already carry that."),
    (["drop crown"], "You do not carry that."),
    (["unlock brass door"], "You need the brass key."),
    (["unlock gate"], "You see nothing like that here."),
    (["attack troll"], "There is nothing like that to attack here."),
    (["open box"], "The box is already open."),
    (["put lamp in box"], "You do not carry that."),
    (["take lamp", "put lamp in chest"], "Say which container here to put it in."),
    (["take lamp", "go east", "put lamp in chest"], "The chest is closed."),
    ([*WALKTHROUGH[:7], "take crown"], "The troll will not let you take anything."),
    ([*WALKTHROUGH[:7], "drop axe"], "The troll would keep it."),
    (["go east", "open chest", "take key", "go west", "unlock door", "n", "attack troll"],
     "You need the axe to defeat the troll."),
    ([*WALKTHROUGH[:7], "attack troll with key"], "The troll does not fear that."),
    (["dance"], "I do not know that command."),
    (["1e5"], "I do not know that command."),
    (["take"], "You see nothing like that here."),
    (["word " * 50], "I do not know that command."),
]  # fmt: skip

READY = []
SAME = [
    ("move east", "go east"), ("walk to the east", "go east"), ("E", "go east"),
    ("east", "go east"), ("pick up the lamp", "take lamp"), ("pick lamp up", "take lamp"),
    ("GET A LAMP.", "take lamp"), ("please take the lamp now!", "take lamp"),
    ("l", "look"), ("look around", "look"), ("i", "inventory"), ("inv", "inventory"),
]  # fmt: skip


def test_a_word_of_a_name_is_enough_and_closed_containers_hide_what_they_hold():
    moves = ["e", "open chest", "take key from chest", "take axe", "w", "open door", "n"]
    assert "troll" in play(*moves)[1][0]
    env, (obs, *_) = play("go east")
    assert "closed chest" in obs
    assert "brass key" not in obs
    assert "open chest holding brass key" in env.step("open chest")[0]


def test_hints_are_added_level_by_level():
    views = [look(house(), Quest("crown", "kitchen", "kitchen"), hints, 9) for hints in range(5)]
    assert [bool(view.task) for view in views] == [False, True, True, True, True]
    assert [bool(view.exits[0].to) for view in views] == [False, False, False, True, True]
    assert [any(way.marked for way in view.exits) for view in views] == [False] * 4 + [True]
    env, _ = play("go east", hints=1)
    assert env._world.came_from == "west"
    assert "came from" not in env.describe()
    assert "came from the west" in play("go east", hints=2)[0].describe()


def test_hints_name_the_next_task_and_a_final_observation_is_no_state():
    env, _ = play(hints=1)
    assert "Next: open chest in kitchen." in env.describe()
    assert parse("Your quest is done.") is None


def size_strategy():
    return st.builds(
        lambda rooms, items, locks, extra: {
            "rooms": max(rooms, locks + 1), "items": items, "locks": locks, "names": 24,
            "quest_length": min(2 + 2 * locks + extra, longest_quest(locks)),
        },
        st.integers(2, 12), st.integers(0, 10), st.integers(0, 5), st.integers(0, 9),
    )  # fmt: skip


@given(size=size_strategy(), seed=st.integers(0, 10**6))
def test_every_drawn_quest_has_the_length_of_the_setting(size, seed):
    world, quest = generate(np.random.default_rng(seed), **size)
    steps = 0
    while not quest.is_done(world):
        command, room = objective(world, quest)
        world.here = room
        world.do(command)
        steps += 1
    assert steps == size["quest_length"]
    assert len(world.exits) == size["rooms"]
    assert len(world.doors) == size["locks"]


def after_random_moves(size, seed, turns):
    rng = np.random.default_rng(seed)
    world, quest = generate(rng, **size)
    for _ in range(turns):
        commands = world.usable()
        world.do(commands[int(rng.integers(len(commands)))])
    return world, quest


@given(size=size_strategy(), seed=st.integers(0, 10**6), turns=st.integers(0, 60))
def test_no_move_makes_a_quest_impossible(size, seed, turns):
    world, quest = after_random_moves(size, seed, turns)
    assert distance(world, quest) >= 0  # plays the plan to its end, or never returns


@given(size_strategy(), st.integers(0, 10**6), st.integers(0, 4), st.integers(0, 9))
def test_both_styles_can_be_read_back(size, seed, hints, turns):
    world, quest = after_random_moves(size, seed, turns)
    view = look(world, quest, hints, turns_left=7)
    assert parse(prose(view)) == view
    again = parse(terse(view))
    if hints:  # the terse style tells the task instead of the quest
        again.quest = view.quest
    assert again == view


def test_names_are_in_one_list_only_and_no_commands():
    kinds = (words.ITEMS, words.METALS, words.CONTAINERS, words.MONSTERS, words.WEAPONS)
    things = [*(name for kind in kinds for name in kind), *FOODS, KNIFE, MEAL]
    for rooms in (words.ROOMS, COIN_ROOMS):
        assert len({*rooms, *things}) == len(rooms) + len(things)
    assert len(words.ROOMS) == len(words.ITEMS)
    assert len(COIN_ROOMS) >= 60
    assert len(FOODS) >= 15
    assert all(read(name) is None for name in (*FOODS, *COIN_ROOMS))


# --- the easy preset: what makes it a fair first task -------------------------------------

EASY = "llm_gym/TextGameEasy-v0"


def best_fixed_sequence(env_id, instances=150, beam=24):
    """Return the share of instances that the best found move sequence wins without looking.

    A beam search over sequences, scored by wins and then by the planner's distance left, on the
    very instances it is judged on: an upper estimate for a player that ignores observations.
    """
    games = [gym.make(env_id).unwrapped for _ in range(instances)]
    for seed, game in enumerate(games):
        game.reset(seed=seed)
    turns = games[0].max_turns
    moves = sorted({move for game in games for move in game.legal_moves()})
    moves += [f"drop {item}" for item in words.ITEMS[: games[0].names]]
    start = [(game._world, game._quest) for game in games]
    states = [(0, [world for world, _ in start], [False] * instances)]
    for _ in range(turns):
        grown = []
        for _, worlds, won in states:
            for move in moves:
                grown.append(_advance(move, worlds, won, [quest for _, quest in start]))
        grown.sort(key=lambda state: state[0], reverse=True)
        states = grown[:beam]
    return max(sum(won) for _, _, won in states) / instances


def _advance(move, worlds, won, quests):
    after, wins, left = [], [], 0
    for world, done, quest in zip(worlds, won, quests, strict=True):
        if not done:
            command = next((c for c in world.usable() if str(c) == move), None)
            if command:
                world = world.clone()
                world.do(command)
                done = quest.is_done(world)
        after.append(world)
        wins.append(done)
        left += 0 if done else distance(world, quest)
    return sum(wins) - left / (100 * len(worlds)), after, wins


@pytest.mark.slow
def test_the_easy_preset_is_easy_to_read_and_hard_to_fluke():
    env = gym.make(EASY).unwrapped
    lengths, wins = [], 0
    for seed in range(300):
        env.reset(seed=seed)
        lengths.append(distance(env._world, env._quest))
        info = final_info(env, "random")
        wins += info["success"]
    assert env.rooms >= 4
    assert env.hints == 4
    assert np.median(lengths) >= 4
    assert wins / 300 <= 0.15
    assert best_fixed_sequence(EASY, instances=60, beam=8) <= 0.20


def test_the_easy_observation_is_a_few_words():
    env = gym.make(EASY, rules="system").unwrapped
    assert max(len(env.reset(seed=seed)[0].split()) for seed in range(100)) <= 32


def test_cached_paths_are_no_part_of_an_instance():
    walked, fresh = house(), house()
    walked.way_to("den")
    assert walked == fresh
    assert repr(walked) == repr(fresh)
