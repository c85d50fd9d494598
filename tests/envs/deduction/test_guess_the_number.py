"""GuessTheNumber: the rules, one test per rule."""

import numpy as np

from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv
from tests.envs.playing import episodes, final_info, start_game


def test_both_ends_of_the_range_are_drawn():
    assert {env._target for env in episodes("GuessTheNumber", 50, low=1, high=2)} == {1, 2}


def test_binary_search_always_wins_at_every_difficulty():
    for difficulty in (0.0, 0.3, 0.6, 1.0):
        env = GuessTheNumberEnv(difficulty=difficulty)
        for target in {env.low, env.high, (env.low + env.high) // 3}:
            env.reset(seed=0)
            env._target = target
            assert final_info(env, "solver")["success"], (difficulty, target)


def test_moves_of_a_wide_range_are_not_listed_but_have_a_pattern():
    env = start_game("GuessTheNumber", high=5000, max_turns=13)
    assert env.legal_actions() is None
    assert env.action_pattern() == "(?:-?[0-9]{1,18})"


def test_another_number_of_a_wide_range_is_found_without_listing_it():
    env = start_game("GuessTheNumber", high=10**15, max_turns=50, _target=7)
    assert env.swap_secret(np.random.default_rng(0))
    assert 1 <= env._target <= 10**15
    env = start_game("GuessTheNumber", high=2, _target=1)
    assert env.swap_secret(np.random.default_rng(0))
    assert env._target == 2
