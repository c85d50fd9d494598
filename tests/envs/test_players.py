"""Solvers and oracles of every game, on settings of their own."""

import numpy as np
import pytest

from tests.envs.playing import final_info, game, solver_and_oracle_moves

# The solver, which reads the text alone, wins at least so many of so many seeds; of the games in
# TURNS it also needs at most so many turns on average.
# fmt: off
SOLVER = [
    *(("Bandit", {"arms": 3, "gap": 0.3, "max_turns": 25, **more}, 80, 100)
      for more in ({}, {"summary": False}, {"action_format": "json"})),
    ("ChainSum", {"max_terms": 100, "max_digits": 9}, 50, 50),
    *(("CoinCollector", {"level": level, "dead_ends": ends, "mode": mode, "style": style,
                         "max_turns": level * (2 + 2 * ends)}, 30, 30)
      for level, ends, mode in ((5, 1, "simple"), (9, 2, "random"))
      for style in ("prose", "terse")),
    *(("CookingWorld", kwargs, 12, 12)
      for kwargs in ({}, {"style": "terse"}, {"rooms": 1, "containers": 0}, {"cut": False},
                     {"cook": False}, {"difficulty": 0.0}, {"difficulty": 0.2},
                     {"difficulty": 1.0}, {"rooms": 12, "ingredients": 5, "distractors": 10,
                                           "containers": 4, "max_turns": 150})),
    ("Count", {"numbers": 6, "max_turns": 4}, 20, 20),
    ("Echo", {"words": 16, "max_turns": 8}, 20, 20),
    ("Game2048", {"target": 64, "max_turns": 50}, 48, 60),
    ("Hangman", {}, 25, 40), ("Hangman", {"word_length": 7}, 36, 40),
    ("Hangman", {"word_length": 7, "lives": 20}, 40, 40),
    ("LetterCounting", {"min_words": 1, "max_words": 60}, 50, 50),
    ("Mastermind", {"duplicates": True}, 40, 40),
    ("Mastermind", {"duplicates": True, "history": False}, 40, 40),
    *(("Maze", {"view": view, "loops": 0.2, "max_turns": 150}, 20, 20) for view in (1, 2, 3)),
    ("Memory", {"words": 16, "delay": 6}, 20, 20),
    ("Minesweeper", {}, 45, 60),
    ("SearchQA", {"hops": 1, "documents": 100, "max_turns": 4}, 38, 40),
    ("SearchQA", {"hops": 4, "documents": 100, "max_turns": 7}, 38, 40),
    *(("Sokoban", kwargs, 30, 30)
      for kwargs in ({}, {"boxes": 1, "min_pushes": 2}, {"action_format": "json"})),
    *(("TextToSQL", {"tables": tables}, 10, 10) for tables in (1, 2, 3)),
    *(("Wordle", {"word_length": length, "max_turns": 15}, 3, 3) for length in range(3, 9)),
    ("Wordle", {}, 28, 30),
]
# fmt: on
TURNS = {"Mastermind": 5.5, "Wordle": 5.5}


@pytest.mark.parametrize(("name", "kwargs", "least", "seeds"), SOLVER)
def test_the_solver_wins_from_the_text_alone(name, kwargs, least, seeds):
    env, turns, wins = game(name, **kwargs), [], 0
    for seed in range(seeds):
        env.reset(seed=seed)
        info = final_info(env, "solver")
        wins, turns = wins + info["success"], [*turns, info["turn"]]
    env.close()
    assert wins >= least
    assert np.mean(turns) <= TURNS.get(name, np.inf)


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("ConnectFour", {}),
        ("ConnectFour", {"opponent": 1.0, "action_format": "json"}),
        ("FrozenLake", {}),
        ("FrozenLake", {"slip": 0.4}),
        ("FrozenLake", {"size": 7, "action_format": "json"}),
        ("Sudoku", {"size": 4, "clues": 4, "max_turns": 13}),
        ("Sudoku", {"clues": 31, "max_turns": 51}),
        ("TicTacToe", {}),
        ("TicTacToe", {"opponent": 0.9, "action_format": "json"}),
        ("TowerOfHanoi", {}),
        ("TowerOfHanoi", {"pegs": 4, "disks": 5}),
        ("TowerOfHanoi", {"pegs": 5, "scattered": True}),
    ],
)
def test_the_solver_plays_the_oracles_game_from_the_text_alone(name, kwargs):
    solver, oracle = solver_and_oracle_moves(game(name, **kwargs), seeds=10)
    assert solver == oracle
    assert len(solver) > 10


@pytest.mark.parametrize(
    ("name", "kwargs", "seeds"),
    [
        ("ConnectFour", {"opponent": 0.75, "begins": "opponent"}, 60),
        ("ConnectFour", {"opponent": 1.0}, 60),
        ("FrozenLake", {"slip": 0.3}, 300),
        ("TicTacToe", {"opponent": 0.6}, 300),
    ],
)
def test_the_oracle_wins_as_often_as_it_promises_from_any_turn(name, kwargs, seeds):
    env = game(name, **kwargs)
    wins = promised = 0.0
    for seed in range(seeds):
        env.reset(seed=seed)
        for _ in range(seed % 3):
            env.step("nonsense")
        promised += env.oracle_value()
        wins += final_info(env, "oracle")["success"]
    assert 0.25 * seeds < promised < seeds
    assert wins == pytest.approx(promised, abs=4 * (promised * (1 - promised / seeds)) ** 0.5)


@pytest.mark.parametrize(
    ("name", "kwargs", "secret", "reply", "told"),
    [
        ("GuessTheNumber", {}, {"_target": 7}, "8", "The number was 7."),
        ("Hangman", {"word_length": 5}, {"_secret": "level"}, "e", "The word was level."),
        ("Mastermind", {}, {"_code": (3, 1, 4, 2)}, "1 2 3 4", "The code was 3 1 4 2."),
        ("Wordle", {}, {"_secret": "crane"}, "slate", "The word was crane."),
    ],
)
def test_running_out_of_turns_tells_the_secret(name, kwargs, secret, reply, told):
    env = game(name, max_turns=1, **kwargs)
    env.reset(seed=0)
    vars(env).update(secret)
    obs, reward, terminated, truncated, info = env.step(reply)
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, True, False, "lost")
    assert obs.endswith(told)
