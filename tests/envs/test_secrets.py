"""Secrets that are swapped, so that the checker can look whether a text gives them away."""

import numpy as np
import pytest

from tests.envs.deduction import test_minesweeper as minesweeper
from tests.envs.playing import game

# The attribute that is secret, the moves before it is swapped, and settings.
SECRETS = {
    "Blackjack": ("_cards", ["hit"], {}),
    "CoinCollector": ("_world", [], {}),
    "CookingWorld": ("_world", [], {}),
    "Echo": ("_asked", ["red"], {"max_turns": 6}),
    "Game2048": ("_draws", [], {}),
    "GuessTheNumber": ("_target", ["5", "9"], {}),
    "Hangman": ("_secret", ["e", "s", "a"], {}),
    "Mastermind": ("_code", ["1 2 3 4", "3 1 1 1"], {}),
    "Maze": ("_exit", [], {"view": 1}),
    "Minesweeper": ("_numbers", ["reveal 4 4"], {}),
    "TextToSQL": ("_seed", [], {}),
    "Wordle": ("_secret", ["slate"], {}),
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_swapped_secret_gives_the_same_observations(name):
    secret, moves, settings = SECRETS[name]
    env, found = game(name, **settings), 0
    for seed in range(10):
        env.reset(seed=seed)
        start = env.snapshot()
        texts = [env.step(move)[0] for move in moves]
        before = repr(getattr(env, secret))
        if env.swap_secret(np.random.default_rng(1000 + seed)):
            swapped, found = getattr(env, secret), found + 1
            assert repr(swapped) != before
            if name == "Minesweeper":  # which draws its mines around the first cell
                assert all(
                    mark == "." or int(mark) == number
                    for mark, number in zip(minesweeper.marks(texts[-1]), swapped, strict=True)
                )
            else:
                env.restore(start)
                setattr(env, secret, swapped)
                assert [env.step(move)[0] for move in moves] == texts
    assert found


KNOWN = {
    "Echo": ({"max_turns": 1}, lambda env: ""),
    "Mastermind": ({"code_length": 2, "numbers": 2}, lambda env: "1 2"),
    "Maze": ({}, lambda env: "left"),
    "CookingWorld": ({"rooms": 1}, lambda env: "read cookbook"),
    "SearchQA": ({}, lambda env: f"search: {env._way[-2]}"),
    "TextToSQL": ({}, lambda env: f"sql: SELECT * FROM {env._blanks['a']}"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_secret_that_the_player_knows_is_not_swapped(name):
    settings, move = KNOWN[name]
    env = game(name, **settings)
    env.reset(seed=0)
    env.step(move(env))
    assert not env.swap_secret(np.random.default_rng(0))
