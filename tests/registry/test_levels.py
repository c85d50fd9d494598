"""Levels of a family get harder in order, have several instances, and take a difficulty."""

import gymnasium as gym
import numpy as np
import pytest

from llm_gym.envs.navigation.text_game.solver import _goal
from llm_gym.envs.navigation.text_game.view import parse
from llm_gym.evaluate.scores import measure, normalised, published
from llm_gym.registry.suite import ENVS

IDS = [row.id for row in ENVS]
ORDERS = (("Easy", ""), ("", "Hard"), ("Easy", "Hard"), ("Easy", "Medium"), ("Medium", "Hard"))
WEAPONS = ("sword", "axe", "spear", "bow", "hammer", "dagger")


def named(family, level):
    return f"llm_gym/{family}{level}-v0"


PAIRS = [
    (named(family, easier), named(family, harder))
    for family in dict.fromkeys(row.entry_point.rpartition(":")[2][:-3] for row in ENVS)
    for easier, harder in ORDERS
    if {named(family, easier), named(family, harder)} <= set(IDS)
]


@pytest.mark.parametrize("player", ["random", "reflex", "solver"])
@pytest.mark.parametrize(("easier", "harder"), PAIRS)
def test_success_falls_from_level_to_level(easier, harder, player):
    """What was measured may differ by chance, but not the wrong way round by more than that."""
    first, second = published()[easier][player], published()[harder][player]
    assert second.low <= first.high, f"{second.success} on {harder}, {first.success} on {easier}"


@pytest.mark.parametrize("env_id", IDS)
def test_a_score_is_normalised_where_solver_and_random_differ_enough(env_id):
    row = published()[env_id]
    wide = row["solver"].success - row["random"].success >= 0.3
    assert wide or env_id.startswith(("llm_gym/Blackjack", "llm_gym/Game2048Easy"))
    assert (normalised(env_id, row["solver"].success) == 1.0) is wide


@pytest.mark.parametrize("family", ["Sokoban", "SokobanHard", "FifteenPuzzle", "FifteenPuzzleHard"])
def test_the_oracle_takes_no_longer_than_the_solver(family):
    env = gym.make(f"llm_gym/{family}-v0")
    oracle, solver = (measure(env, player, 8) for player in ("oracle", "solver"))
    assert oracle.success == 1.0
    assert oracle.turns <= solver.turns


def test_every_level_is_compared_and_a_hard_sudoku_allows_mistakes():
    game = gym.make("llm_gym/SudokuHard-v0").unwrapped
    assert game.max_turns == 1.5 * (game.size**2 - game.clues)
    assert len(PAIRS) >= 50
    with_levels = {i for i in IDS if i.endswith(("Easy-v0", "Hard-v0", "Medium-v0"))}
    assert with_levels <= {env_id for pair in PAIRS for env_id in pair}


@pytest.mark.parametrize("env_id", IDS)
def test_a_difficulty_replaces_the_settings_of_every_level(env_id):
    for difficulty in (0.0, 0.5, 1.0) if gym.make(env_id).unwrapped.at_difficulty(0.0) else ():
        env = gym.make(env_id, difficulty=difficulty)
        by_option = gym.make(env_id).reset(seed=1, options={"difficulty": difficulty})
        assert env.reset(seed=1) == by_option


def test_a_given_setting_conflicts_with_difficulty():
    with pytest.raises(ValueError, match="difficulty"):
        gym.make("llm_gym/TextGameEasy-v0", rooms=5, difficulty=0.5)
    with pytest.raises(ValueError, match="difficulty"):
        gym.make("llm_gym/TextGame-v0", rooms=5, difficulty=0.5)
    assert gym.make("llm_gym/TextGameEasy-v0", difficulty=0.5).unwrapped.rooms == 10


@pytest.mark.parametrize("family", ["Sudoku", "Game2048"])
def test_the_lowest_difficulty_is_not_won_by_chance(family):
    env = gym.make(f"llm_gym/{family}-v0", difficulty=0.0)
    assert measure(env, "random", 40).success < 0.75
    assert measure(env, "solver", 20).success >= 0.95


def reflex(text, rng):
    """Return the move of a player who acts well on what is seen now and remembers nothing."""
    view = parse(text)
    item, target, room = _goal(view.quest)
    if item in view.carried and view.room == room:
        return f"drop {item}" if target == room else f"put {item} in {target}"
    if view.monster and view.bane in view.carried:
        return f"attack {view.monster}"
    here = [] if view.monster else [*view.items, *(x for b in view.boxes.values() for x in b or ())]
    for thing in here:
        if thing == item or thing.endswith(" key") or thing in WEAPONS:
            return f"take {thing}"
    for box, held in view.boxes.items():
        if held is None and not view.monster:
            return f"open {box}"
    for way in view.exits:
        if way.door and way.door.replace("door", "key") in view.carried:
            return f"unlock {way.door}"
    ways = [way.way for way in view.exits if not way.door]
    return f"go {ways[int(rng.integers(len(ways)))]}"


def play_by_reflex(env_id, episodes):
    env, won = gym.make(env_id), 0
    for seed in range(episodes):
        rng, (text, _) = np.random.default_rng(seed), env.reset(seed=seed)
        done = False
        while not done:
            text, _, done, _, info = env.step(reflex(text, rng))
        won += info["success"]
    return won / episodes


def test_a_reflex_without_memory_fails_in_text_game_medium():
    assert play_by_reflex("llm_gym/TextGameMedium-v0", 200) <= 0.2
    assert measure(gym.make("llm_gym/TextGameMedium-v0"), "solver", 40).success >= 0.95
