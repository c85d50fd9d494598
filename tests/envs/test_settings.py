"""The settings of every game: values that are refused, difficulty, and rules that state them."""

import pytest

from llm_gym.core.errors import ConfigError
from tests.envs.playing import game

# A row of settings is refused with the name of its first setting, unless a name goes before it.
# fmt: off
REFUSED = {
    "Bandit": [{"arms": 1}, {"arms": 11, "max_turns": 30}, {"gap": 0.0}, {"gap": 0.9},
               {"max_turns": 5}],
    "Blackjack": [{"decks": 0}, {"decks": 9}, {"max_turns": 3}, {"max_turns": 21}],
    "ChainSum": [{"min_terms": 1}, {"max_terms": 101}, {"min_terms": 7}, {"min_digits": 0},
                 {"max_digits": 10}],
    "CoinCollector": [{"level": 1}, {"level": 21}, {"dead_ends": 3}, {"mode": "hard"},
                      {"style": "verse"}, {"max_turns": 4}, {"difficulty": 0.5, "level": 7}],
    "ConnectFour": [{"opponent": -0.1}, {"begins": "white"}, {"max_turns": 20}],
    "CookingWorld": [{"rooms": 0}, {"ingredients": 6}, {"distractors": -1}, {"containers": 7},
                     {"style": "verse"}, {"max_turns": 5}, {"max_turns": 6}],
    "Count": [{"numbers": 1}, {"max_turns": 0}],
    "Countdown": [{"numbers": 7}, {"max_number": 0}, {"large": 5}, {"min_target": 0},
                  {"min_target": 50, "max_target": 20}, {"max_turns": 0},
                  {"max_turns": 2, "stepwise": True}],
    "Dataset": [{"limit": 0}, {"max_turns": 0}, {"max_turns": 2, "answer": None},
                {"split": "eval"}, {"grader": "equal"}, {"action_format": "xml"}],
    "Echo": [{"words": 1}, {"words": 17}, {"max_turns": 0}],
    "FifteenPuzzle": [{"size": 1}, {"scramble": None, "size": 5}, {"scramble": 0},
                      {"scramble": 7, "size": 2}, ("max_turns", {"scramble": 41}),
                      ("max_turns", {"scramble": None})],
    "FrozenLake": [{"size": 1}, {"hole_probability": 1.0}, {"holes": 10}, {"slip": 1.5},
                   {"max_turns": 5}, {"difficulty": 0.5, "holes": 3}],
    "Game2048": [{"target": 4}, {"target": 96}, {"target": 4096},
                 # GEM's hard preset: 52 tiles of at most 4 add up to 208.
                 {"max_turns": 50, "target": 512}],
    "GuessTheNumber": [{"low": 5, "high": 5}, {"max_turns": 0}],
    "Hangman": [{"word_length": 2}, {"lives": 0}, {"lives": 101}, {"max_turns": 0}],
    "LetterCounting": [{"min_words": 0}, {"min_words": 6, "max_words": 5}, {"max_words": 501}],
    "Mastermind": [{"code_length": 1}, {"numbers": 21}, {"numbers": 3}, {"max_turns": 0},
                   {"max_turns": 101}],
    "MathPython": [{"steps": 0}, {"digits": 7}, {"kinds": ["poems"]}, {"kinds": []},
                   {"max_turns": 0}, {"timeout": 0}],
    "Maze": [{"size": 1}, {"loops": 1.5}, {"view": 0}, {"max_turns": 9}],
    "Memory": [{"words": 1}, {"delay": 0}],
    # A long field takes seconds: one place in it that needs a guess is enough to redraw it.
    "Minesweeper": [{"rows": 3}, {"cols": 31}, {"mines": 0}, {"mines": 56}, {"max_turns": 53},
                    {"no_guess": True, "mines": 13},
                    {"no_guess": True, "cols": 17, "max_turns": 136}],
    "SearchQA": [{"hops": 0}, {"documents": 5}, {"results": 0}, {"max_turns": 0}],
    "Sokoban": [{"size": 4}, {"boxes": 0}, {"min_pushes": 5}, {"min_pushes": 3, "boxes": 1},
                {"max_turns": 14}],
    "Sudoku": [{"size": 6}, {"clues": 23}, {"clues": 16, "size": 4}, ("max_turns", {"clues": 30})],
    "TextGame": [{"rooms": 1}, {"rooms": 9, "names": 8}, {"items": -1}, {"locks": 7},
                 {"quest_length": 2}, {"quest_length": 99}, {"hints": 5}, {"names": 99},
                 {"style": "verse"}, {"max_turns": 0}, {"max_turns": 7},
                 {"max_turns": 2, "rooms": 24, "quest_length": 2, "locks": 0}],
    "TextToSQL": [{"tables": 0}, {"rows": 1}, {"max_turns": 0}],
    "TicTacToe": [{"opponent": 1.1}, {"opponent": float("nan")}, {"begins": "me"},
                  {"max_turns": 4}],
    "TowerOfHanoi": [{"disks": 0}, {"pegs": 2}, {"disks": 8, "pegs": 4},
                     {"max_turns": 30, "disks": 5}],
    "WordLadder": [{"word_length": 6}, {"min_distance": 0}, {"min_distance": 7, "word_length": 3},
                   {"max_distance": 4}, {"max_turns": 6}],
    "Wordle": [{"word_length": 9}, {"list_size": 1}, {"list_size": 9999, "word_length": 3},
               {"max_turns": 0}, {"max_turns": 101}],
}

DIFFICULTY = [
    ("Bandit", 0.0, {"arms": 2}), ("Bandit", 1.0, {"arms": 10}),
    ("CoinCollector", 0.0, {"level": 3, "dead_ends": 0}),
    ("CoinCollector", 1.0, {"level": 15, "dead_ends": 2}),
    ("ConnectFour", 0.3, {"opponent": 0.3}), ("ConnectFour", 1.0, {"opponent": 1.0}),
    ("CookingWorld", 0.0, {"rooms": 1, "ingredients": 1, "cut": False, "cook": False}),
    ("CookingWorld", 1.0, {"rooms": 11, "ingredients": 5, "cut": True, "cook": True}),
    ("Count", 0.0, {"numbers": 2, "max_turns": 1}),
    ("Count", 1.0, {"numbers": 20, "max_turns": 10}),
    ("Echo", 0.0, {"words": 2, "max_turns": 1}), ("Echo", 1.0, {"words": 16, "max_turns": 8}),
    ("FrozenLake", 0.0, {"size": 4}), ("FrozenLake", 1.0, {"size": 10}),
    ("Maze", 0.0, {"size": 3}), ("Maze", 1.0, {"size": 10}),
    ("Memory", 0.0, {"words": 2, "delay": 1, "max_turns": 2}),
    ("Memory", 1.0, {"words": 16, "delay": 10, "max_turns": 11}),
    ("Sudoku", 0.0, {"clues": 7, "size": 4}), ("Sudoku", 0.2, {"clues": 5, "size": 4}),
    ("Sudoku", 0.25, {"clues": 48, "size": 9}), ("Sudoku", 1.0, {"clues": 26, "size": 9}),
    ("TicTacToe", 0.0, {"opponent": 0.0}), ("TicTacToe", 1.0, {"opponent": 0.9}),
    ("TowerOfHanoi", 0.0, {"disks": 2, "max_turns": 6}),
    ("TowerOfHanoi", 1.0, {"disks": 7, "max_turns": 135}),
]

# Phrases of the rules under these settings, absent under the default ones.
RULES = [
    ("Bandit", {"arms": 3, "gap": 0.25, "max_turns": 12},
     ["3 buttons: red, blue, green.", "0.25", "first 11 turns", "12 turns"]),
    ("Blackjack", {"decks": 1, "hits_soft_17": True}, ["1 deck of 52", "also on a 17 with an ace"]),
    ("ConnectFour", {"opponent": 0.25, "max_turns": 27}, ["probability 0.25", "27 turns"]),
    ("Count", {"numbers": 12}, ["after 12 comes 1"]),
    ("Countdown", {"use_all": False}, ["Use each number at most once"]),
    ("FifteenPuzzle", {"size": 5, "scramble": 10, "max_turns": 33}, ["1 to 24", "33 turns"]),
    ("FrozenLake", {"slip": 0.25, "max_turns": 33}, ["probability 0.25 the ice", "33 turns"]),
    ("Game2048", {"target": 256, "max_turns": 222}, ["tile of 256", "222 turns"]),
    ("Hangman", {"lives": 3}, ["you have 3"]),
    ("Mastermind", {"code_length": 3, "numbers": 9, "max_turns": 7},
     ["3 numbers, each from 1 to 9, no two alike", "7 turns"]),
    ("Mastermind", {"duplicates": True}, ["numbers may repeat"]),
    ("Maze", {"size": 7, "max_turns": 100, "view": 2}, ["15 by 15", "100 turns", "up to 2 steps"]),
    ("Minesweeper", {"rows": 5, "cols": 7, "mines": 6, "max_turns": 50, "no_guess": True},
     ["5 rows and 7 columns", "6 mines", "50 turns", "never need to guess"]),
    ("Sokoban", {"boxes": 3}, ["the 3 boxes"]),
    ("Sokoban", {"boxes": 1, "min_pushes": 1}, ["the box onto the goal"]),
    ("Sudoku", {"size": 4, "clues": 8, "max_turns": 17}, ["2 by 2", "1 to 4", "17 turns"]),
    ("TicTacToe", {"opponent": 0.25, "max_turns": 7}, ["probability 0.25", "7 turns"]),
    ("TowerOfHanoi", {"disks": 5, "pegs": 4, "max_turns": 77},
     ["4 pegs, A, B, C and D", "5 disks", "77 turns"]),
    ("WordLadder", {"max_distance": 6, "max_turns": 44}, ["at most 6 steps", "44 turns"]),
    ("Wordle", {"word_length": 6, "max_turns": 8}, ["words of 6 letters.", "any 6 letters"]),
    ("Wordle", {"only_words": True}, ["must be one of them"]),
]
# fmt: on


@pytest.mark.parametrize(
    ("name", "row"), [(name, row) for name, rows in REFUSED.items() for row in rows]
)
def test_a_bad_setting_is_refused_by_its_name(name, row):
    setting, kwargs = row if isinstance(row, tuple) else (next(iter(row)), row)
    with pytest.raises(ConfigError, match=rf"\b{setting}"):
        game(name, **kwargs)


@pytest.mark.parametrize(("name", "level", "expected"), DIFFICULTY)
def test_a_difficulty_sets_these_settings(name, level, expected):
    made = game(name, difficulty=level)
    assert {setting: getattr(made, setting) for setting in expected} == expected


@pytest.mark.parametrize(("name", "kwargs", "phrases"), RULES)
def test_the_rules_state_the_settings(name, kwargs, phrases):
    rules = game(name, rules="system", **kwargs).reset(seed=0)[1]["system_prompt"]
    plain = game(name, rules="system").reset(seed=0)[1]["system_prompt"]
    for text in phrases:
        assert text in rules
        assert text not in plain
