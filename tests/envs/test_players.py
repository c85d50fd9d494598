"""Solvers and oracles of every game, on settings of their own."""

import numpy as np
import pytest

from llm_gym.envs.navigation.frozen_lake import distances as moves_over_ice
from llm_gym.envs.navigation.text_game.world import distance
from llm_gym.envs.puzzles.game_2048 import turns_needed
from tests.envs.board_games import test_connect_four as connect_four
from tests.envs.board_games import test_tic_tac_toe as tic_tac_toe
from tests.envs.deduction import test_minesweeper as minesweeper
from tests.envs.navigation import test_coin_collector as coin_collector
from tests.envs.navigation import test_cooking_world as cooking_world
from tests.envs.navigation import test_frozen_lake as frozen_lake
from tests.envs.navigation import test_maze as maze
from tests.envs.navigation import test_text_game as text_game
from tests.envs.playing import (
    expected_by_random_play,
    final_info,
    game,
    solver_and_oracle_moves,
    start_game,
)
from tests.envs.puzzles import test_fifteen_puzzle as fifteen_puzzle
from tests.envs.puzzles import test_game_2048 as game_2048
from tests.envs.puzzles import test_sokoban as sokoban
from tests.envs.puzzles import test_sudoku as sudoku
from tests.envs.puzzles import test_tower_of_hanoi as tower_of_hanoi
from tests.envs.questions import test_countdown as countdown

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
    *(("Countdown", kwargs, 20, 20) for kwargs in countdown.PUZZLES),
    ("Echo", {"words": 16, "max_turns": 8}, 20, 20),
    ("Game2048", {"target": 64, "max_turns": 50}, 16, 20),
    ("Hangman", {}, 12, 20), ("Hangman", {"word_length": 7}, 18, 20),
    ("Hangman", {"word_length": 7, "lives": 20}, 40, 40),
    ("LetterCounting", {"min_words": 1, "max_words": 60}, 50, 50),
    ("Mastermind", {"duplicates": True}, 40, 40),
    ("Mastermind", {"duplicates": True, "history": False}, 40, 40),
    *(("Maze", {"view": view, "loops": 0.2, "max_turns": 150}, 8, 8) for view in (1, 2, 3)),
    ("Memory", {"words": 16, "delay": 6}, 20, 20),
    ("Minesweeper", {}, 22, 30),
    ("SearchQA", {"hops": 1, "documents": 100, "max_turns": 4}, 19, 20),
    ("SearchQA", {"hops": 4, "documents": 100, "max_turns": 7}, 19, 20),
    *(("Sokoban", kwargs, 30, 30)
      for kwargs in ({}, {"boxes": 1, "min_pushes": 2}, {"action_format": "json"})),
    *(("TextToSQL", {"tables": tables}, 10, 10) for tables in (1, 2, 3)),
    ("WordLadder", {"word_length": 5, "min_distance": 8, "max_distance": 8, "max_turns": 8},
     20, 20),
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
        ("TicTacToe", {}),
        ("Sudoku", {}),
        ("Sudoku", {"size": 4, "clues": 4, "max_turns": 13}),
        ("Sudoku", {"clues": 31, "max_turns": 51}),
        ("TicTacToe", {"opponent": 0.9, "action_format": "json"}),
        ("TowerOfHanoi", {}),
        ("TowerOfHanoi", {"pegs": 4, "disks": 5}),
        ("TowerOfHanoi", {"pegs": 5, "scattered": True}),
    ],
)
def test_the_solver_plays_the_oracles_moves(name, kwargs):
    solver, oracle = solver_and_oracle_moves(game(name, **kwargs), seeds=10)
    assert solver == oracle
    assert len(solver) > 10


@pytest.mark.parametrize(
    ("name", "kwargs", "seeds"),
    [
        ("ConnectFour", {"opponent": 0.75, "begins": "opponent"}, 60),
        ("ConnectFour", {"opponent": 1.0}, 60),
        ("Blackjack", {}, 100),
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
    ("name", "kwargs", "seeds"),
    [
        ("CoinCollector", {"level": 12, "dead_ends": 2, "max_turns": 12}, 20),  # its shortest way
        ("CookingWorld", {"max_turns": 17}, 15),  # less than many houses of these settings take
        *(("Countdown", kwargs, 20) for kwargs in countdown.PUZZLES),
        *(("FrozenLake", kwargs, 50)
          for kwargs in ({}, {"hole_probability": 0.9}, {"size": 8, "holes": 49, "max_turns": 14},
                         {"size": 8, "hole_probability": 0.6, "max_turns": 14},
                         {"size": 2, "hole_probability": 0.5, "max_turns": 2})),
        *(("Game2048", {"target": target, "max_turns": turns_needed(target)}, 10)
          for target in (8, 16, 32, 64, 128, 256)),
        # The oracle once promised success and lost seed 91.
        ("TextGame", {"rooms": 24, "quest_length": 2, "locks": 0, "max_turns": 5}, 92),
    ],
)  # fmt: skip
def test_the_oracle_wins_within_the_turns_required(name, kwargs, seeds):
    env = game(name, **kwargs)
    for seed in range(seeds):
        env.reset(seed=seed)
        assert final_info(env, "oracle")["success"], seed


@pytest.mark.parametrize(
    ("name", "kwargs", "player", "replies"),
    [
        ("FifteenPuzzle", {"size": 5, "scramble": 30, "max_turns": 60}, "oracle", 10),
        ("FifteenPuzzle", {}, "solver", 3),
        ("FifteenPuzzle", {"scramble": None, "max_turns": 200}, "solver", 5),
        ("Game2048", {"target": 64, "max_turns": 60}, "oracle", 3),
        *(("Sudoku", {"clues": 31, "max_turns": 120}, player, 20)
          for player in ("oracle", "solver")),
    ],
)  # fmt: skip
def test_players_win_after_random_moves(name, kwargs, player, replies):
    env = game(name, **kwargs)
    for seed in range(10):
        env.reset(seed=seed)
        getattr(env, f"{player}_action")()
        for _ in range(replies):
            env.step(env.random_action())
        assert final_info(env, player)["success"], seed


@pytest.mark.parametrize(
    ("name", "kwargs", "player", "fewest"),
    [
        ("FrozenLake", {"size": 8, "max_turns": 60}, "oracle",
         lambda env: moves_over_ice(env._lake)[0]),
        *(("Maze", kwargs, "solver",
           lambda env: maze.distances(env._floor, env._exit, env._side)[env._start])
          for kwargs in ({}, {"loops": 0.5}, {"size": 3, "action_format": "json"})),
        *(("TowerOfHanoi", kwargs, "solver",
           lambda env: tower_of_hanoi.distances(env.disks, env.pegs)[env._start])
          for kwargs in ({}, {"pegs": 4, "disks": 5}, {"pegs": 5, "scattered": True})),
    ],
)  # fmt: skip
def test_players_take_a_shortest_path(name, kwargs, player, fewest):
    env = game(name, **kwargs)
    for seed in range(20):
        env.reset(seed=seed)
        env.step("???")
        if (turns := fewest(env) + 1) <= env.max_turns:
            assert final_info(env, player)["turn"] == turns


@pytest.mark.parametrize(
    ("name", "settings", "score", "success"),
    [
        *(("Count", {"numbers": n, "max_turns": turns, "_last": 1},
           sum(n**-k for k in range(1, turns + 1)) / turns, n**-turns)
          for n, turns in ((5, 3), (2, 6), (7, 1))),
        *(("Echo", {"words": n, "max_turns": turns}, 1 / n, n**-turns)
          for n, turns in ((4, 4), (2, 5), (3, 1))),
    ],
)  # fmt: skip
def test_a_random_player_gets_the_documented_score(name, settings, score, success):
    assert expected_by_random_play(start_game(name, **settings)) == pytest.approx([score, success])


@pytest.mark.parametrize("name", ["Count", "Echo"])
def test_after_an_unusable_reply_players_go_on_with_an_oracle_value_of_zero(name):
    env = start_game(name)
    env.step(env.solver_action())
    assert env.oracle_value() == 1.0
    env.step("elephant")
    assert env.solver_action() == env.oracle_action()
    assert env.oracle_value() == 0.0


@pytest.mark.parametrize(
    ("name", "settings", "move"),
    [
        ("Mastermind", {"code_length": 8, "numbers": 20}, "20 " * 8),
        ("Wordle", {"word_length": 8, "list_size": 100}, "zzzzzzzz"),
    ],
)
def test_the_longest_game_fits_into_an_observation(name, settings, move):
    env = start_game(name, max_turns=100, **settings)
    for _ in range(98):
        assert env.step(move)[4]["valid_action"]
    assert env.observation_space.contains(env._base_rules() + env.step("no such word")[0])


# --- games with a secret ------------------------------------------------------------------------

SECRETS = {
    "Bandit": {},
    "ChainSum": {"retries": 1},
    "Count": {"numbers": 9, "_last": 3},
    "GuessTheNumber": {"_target": 7},
    "Hangman": {"_secret": "level"},
    "LetterCounting": {"retries": 1},
    "Mastermind": {"_code": (3, 1, 4, 2)},
    "WordLadder": {"_start": "cold", "_word": "cold", "_target": "warm"},
    "Wordle": {"_secret": "crane"},
}


def secret(name):
    """Return the game on its first turn, with the secret above."""
    return start_game(name, **SECRETS.get(name, {}))


STARTED = {
    "CoinCollector": coin_collector.corridor,
    "ConnectFour, column full": lambda: connect_four.started("O X O X O X"),
    "Countdown": lambda: countdown.started([3, 8, 5, 2], 40),
    "Countdown by steps": lambda: countdown.started([2, 3, 3], 100, stepwise=True),
    "FifteenPuzzle, gap first": lambda: fifteen_puzzle.started([0, 1, 2, 3, 4, 6, 5, 8, 7]),
    "FifteenPuzzle, gap last": lambda: fifteen_puzzle.started([1, 2, 3, 4, 6, 5, 8, 7, 0]),
    "Minesweeper": lambda: minesweeper.opened()[0],
    "Minesweeper, flagged": lambda: minesweeper.started(minesweeper.CORNER, "flag 2 3"),
    "Sudoku": sudoku.started,
    "Sudoku, one digit": lambda: sudoku.started("1..............."),
    "TicTacToe, two marks": lambda: tic_tac_toe.started("1", "5"),
    "TowerOfHanoi": lambda: tower_of_hanoi.started("A: 3 2", "B:", "C: 1"),
    "Wordle, only words": lambda: start_game("Wordle", only_words=True),
}

NO_NUMBERS = ["0", "10", "-1", "4 4", "4,5", "4" * 300, "[", "column", "b2"]
USAGE = "Your move must be"
# That the game itself is left as it was, ``check_text_env`` shows of every game.
UNUSABLE = {
    ("Bandit", "must be one of red, blue, green, yellow, purple."): ["press it", "orange"],
    ("ChainSum", ""): ["minus thirteen", "-13 or 13", "?", "12 + 5 - 30"],
    ("CoinCollector", "There is no exit that way."): ["go south"],
    ("CoinCollector", "You see nothing like that here."): ["take coin", "open chest"],
    ("CoinCollector", "You do not carry that."): ["drop coin"],
    ("CoinCollector", "There is nothing like that to attack here."): ["attack troll"],
    ("CoinCollector", "I do not know that command."): ["teleport", "🪙"],
    ("CoinCollector", "A move has at most 1000 characters."): ["take " * 300],
    ("ConnectFour", "Your move must be the number of a column"): NO_NUMBERS,
    ("ConnectFour, column full", "Column 1 is full."): ["1"],
    ("Count", "a number from 1 to 9."): ["0", "10", "4.5", "-4", "4 5", "9" * 500],
    ("Countdown", "You use 5 too often."): ["3 + 8 + 5 + 5"],
    ("Countdown", "You use 8 too often."): ["(3 + 5) / (8 - 8)"],
    ("Countdown", "You have no 40."): ["40"],
    ("Countdown", "Use every number: 2 is missing."): ["3 + 8 + 5"],
    ("Countdown", "Your expression divides by zero."): ["8 / (5 - 3 - 2)"],
    ("Countdown", "Your move must be an expression"): ["forty"],
    ("Countdown by steps", "That makes -1; it must be a positive whole number."): ["2 - 3"],
    ("Countdown by steps", "That makes 0; it must be a positive whole number."): ["3 - 3"],
    ("Countdown by steps", "That makes 3/2; it must be a positive whole number."): ["3 / 2"],
    ("Countdown by steps", "must be one operation on two numbers."): ["2 * 3 * 3", "3"],
    ("FifteenPuzzle, gap first", "No tile is above the gap"): ["down"],
    ("FifteenPuzzle, gap first", "No tile is to the left of the gap"): ["right"],
    ("FifteenPuzzle, gap last", "No tile is below the gap"): ["up"],
    ("FifteenPuzzle, gap last", "No tile is to the right of the gap"): ["left"],
    ("GuessTheNumber", "one whole number"): ["7.0", "1e1", "9" * 500, "--1"],
    ("GuessTheNumber", "from 1 to 20"): ["21"],
    ("Hangman", "one letter or a word of 5 letters"): [
        "le", "lev", "levels", "e l", "é", "5", "_", "[]",
    ],
    ("LetterCounting", ""): ["several", "5 or 6", "e", "4, 5", "?"],
    ("Mastermind", "4 numbers from 1 to 6"): [
        "1 2 3", "1 2 3 4 5", "0 1 2 3", "1 2 3 7", "-1 2 3 4", "1 2 3 four", "[]",
    ],
    ("MathPython", USAGE): ["python:", "answer:", "java: 1", "print(1)", "x: y: z"],
    ("MathPython", ""): ["answer: 1 or 2", "answer: x"],
    ("Minesweeper", "Rows go from 0 to 3 and columns from 0 to 3."): ["reveal 4 0", "reveal 0 99"],
    ("Minesweeper", "row 0, column 0 is revealed already."): ["reveal 0 0", "flag 0 0"],
    ("Minesweeper", "must be reveal or flag with a row and a column."): ["dig"],
    ("Minesweeper, flagged", "in row 2, column 3 is flagged; remove"): ["reveal 2 3"],
    ("SearchQA", USAGE): ["search:", "answer:", "find: x", "Norvik", "search", ": x"],
    ("Sudoku", "Row 1, column 1 was given and stays."): ["1 1 3", "1 1 0"],
    ("Sudoku", "Row 1, column 3 is already open."): ["1 3 0"],
    ("Sudoku", "Rows and columns go from 1 to 4, digits from 0 to 4."): ["1 5 1", "0 1 1", "1 3 5"],
    ("Sudoku", "must be three digits: row, column and digit."): ["1 3"],
    ("Sudoku, one digit", "There is a 1 in row 1, column 1 already."): ["1 4 1", "4 1 1", "2 2 1"],
    ("TextToSQL", "Your answer cannot be run."): [
        "answer: SELEC 1", "answer: DROP TABLE x", "answer: SELECT 1; SELECT 2",
        "answer: PRAGMA user_version", "answer: 42", "answer: ''",
    ],
    ("TicTacToe", "Your move must be the number of a square"): NO_NUMBERS,
    ("TicTacToe, two marks", "Square 1 is taken."): ["1"],
    ("TicTacToe, two marks", "Square 5 is taken."): ["5"],
    ("TowerOfHanoi", "Peg B is empty."): ["B A"],
    ("TowerOfHanoi", "Disk 2 may not lie on disk 1, which is smaller."): ["A C"],
    ("TowerOfHanoi", "A move needs two different pegs from A to C."): ["A A", "A D"],
    ("TowerOfHanoi", "Your move must be two pegs"): ["A"],
    ("WordLadder", "not exactly one letter away from cold."): ["cold", "warm"],
    ("WordLadder", "I do not know the word cald."): ["cald"],
    ("WordLadder", "one word of 4 letters."): ["colds", "cord ward", "cörd", "42"],
    ("Wordle, only words", "qzxjv is not one of my words."): ["qzxjv"],
    ("Wordle", "one word of 5 letters"): [
        "cran", "cranes", "cr ne", "crâne", "12345", "crane slate", "[]",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "why", "text"), [(*row, text) for row, texts in UNUSABLE.items() for text in texts]
)
def test_an_unusable_move_is_refused_with_the_reason(name, why, text):
    env = STARTED[name]() if name in STARTED else secret(name)
    obs, reward, terminated, _, info = env.step(text)
    assert (reward, terminated, info["valid_action"]) == (0.0, False, False)
    assert why in obs.split("\n")[0]


POTENTIALS = {
    "CoinCollector": (
        coin_collector.corridor, ["go west", "go east", "go north", "go east"],
        [1 / 2, 1 / 3, 1 / 2, 2 / 3, 5 / 6],
    ),
    "CookingWorld": (
        lambda: cooking_world.play()[0], cooking_world.WALKTHROUGH[:-1],
        [(10 + at) / 20 for at in range(10)],
    ),
    "FifteenPuzzle": (
        lambda: fifteen_puzzle.started([1, 2, 3, 4, 5, 6, 0, 7, 8]), ["left", "left"],
        [0.5, 0.75, 1.0],
    ),
    "FrozenLake": (
        lambda: frozen_lake.started("..H H.. H.G"), ["right", "down"], [0.5, 0.625, 0.75],
    ),
    # 8 is the first of 8, 16, 32 and 64.
    "Game2048": (
        lambda: game_2048.started("4 4 . ." + "\n. . . ." * 3, target=64, max_turns=50), ["left"],
        [0.0, 0.25],
    ),
    "Hangman": (lambda: secret("Hangman"), ["e", "x", "l"], [0.0, 0.4, 0.4, 0.8]),
    "Mastermind": (
        lambda: secret("Mastermind"), ["1 2 3 4", "3 1 1 1", "6 6 6 6"], [0.0, 0.0, 0.5, 0.5],
    ),
    "Maze": (lambda: maze.started(*maze.SMALL), ["down", "down"], [6 / 12, 7 / 12, 8 / 12]),
    "Minesweeper": (
        lambda: minesweeper.started(minesweeper.CORNER), ["reveal 2 2", "reveal 0 0"],
        [0.0, 1 / 14, 13 / 14],
    ),
    "Sokoban": (
        lambda: sokoban.started("#######", "#PX..O#", *["#.....#"] * 2, *["#######"] * 3),
        ["right", "right"], [1 / 2, 2 / 3, 5 / 6],
    ),
    "Sudoku": (sudoku.started, ["1 3 4", "1 3 3"], [0.0, 0.0, 1 / 9]),
    "TowerOfHanoi": (
        lambda: start_game("TowerOfHanoi", disks=2, _rows=["A: 2 1", "B:", "C:"], _start=0,
                           _goal=2),
        ["A B", "A C"], [3 / 6, 4 / 6, 5 / 6],
    ),
    "WordLadder": (
        lambda: secret("WordLadder"), ["cord", "card", "cord", "word"],
        [0.5, 0.625, 0.75, 0.625, 0.75],
    ),
    "Wordle": (
        lambda: secret("Wordle"), ["moist", "slate", "crate", "moist"],
        [0.0, 0.0, 0.4, 0.8, 0.8],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", POTENTIALS)
def test_the_potential_is_the_progress_so_far(name):
    make, moves, potentials = POTENTIALS[name]
    env = make()
    seen = [env.potential()]
    for move in moves:
        assert env.step(move)[4]["valid_action"]
        seen.append(env.potential())
    assert seen == pytest.approx(potentials)


# --- generated worlds: of each a house drawn by hand ----------------------------------------------

WORLDS = {"CookingWorld": cooking_world, "TextGame": text_game}


def of_worlds(rows):
    return [(world, *row) for world in WORLDS.values() for row in getattr(world, rows)]


@pytest.mark.parametrize(("world", "moves", "message"), of_worlds("CANNOT"))
def test_an_impossible_command_is_refused_with_the_reason(world, moves, message):
    env, _ = world.play(*moves[:-1])
    before = repr(env._world)
    obs, *_, info = env.step(moves[-1])
    assert (obs.split("\n")[0], info["valid_action"]) == (message, False)
    assert repr(env._world) == before


@pytest.mark.parametrize(("world", "text", "same_as"), of_worlds("SAME"))
def test_commands_have_synonyms(world, text, same_as):
    assert world.play(*world.READY, text)[1][:4] == world.play(*world.READY, same_as)[1][:4]


@pytest.mark.parametrize("name", WORLDS)
def test_the_planner_is_as_short_as_the_walkthrough(name):
    env, _ = WORLDS[name].play()
    turns = len(WORLDS[name].WALKTHROUGH)
    assert distance(env._world, env._quest) == turns
    info = final_info(env, "oracle")
    assert (info["success"], info["turn"]) == (True, turns)
