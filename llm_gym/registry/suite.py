"""The environments of the suite, one row each.

Entry points are strings, so importing this module loads no environment. The level comes before
the version in an id. A change that can move a score makes a new version; the old row stays
until the next minor release.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym

from llm_gym.registry.bridges import BRIDGES


class EnvRow(NamedTuple):
    """One registered configuration of an environment."""

    id: str
    entry_point: str
    kwargs: dict[str, Any] = {}
    needs: str = ""
    """What must be there before it can be made, such as a package or an argument."""
    vector_entry_point: str | None = None


_GUESS = "llm_gym.envs.deduction.guess_the_number:GuessTheNumberEnv"
_LAKE = "llm_gym.envs.navigation.frozen_lake:FrozenLakeEnv"
_BANDIT = "llm_gym.envs.deduction.bandit:BanditEnv"
_BLACKJACK = "llm_gym.envs.board_games.blackjack:BlackjackEnv"
_COUNTDOWN = "llm_gym.envs.questions.countdown.env:CountdownEnv"
_MAZE = "llm_gym.envs.navigation.maze:MazeEnv"
_SOKOBAN = "llm_gym.envs.puzzles.sokoban.env:SokobanEnv"
_GAME = "llm_gym.envs.navigation.text_game.env:TextGameEnv"
_MASTERMIND = "llm_gym.envs.deduction.mastermind:MastermindEnv"
_WORDLE = "llm_gym.envs.deduction.wordle:WordleEnv"
_HANGMAN = "llm_gym.envs.deduction.hangman:HangmanEnv"
_LADDER = "llm_gym.envs.puzzles.word_ladder:WordLadderEnv"
_LETTERS = "llm_gym.envs.questions.letter_counting:LetterCountingEnv"
_SUM = "llm_gym.envs.questions.chain_sum:ChainSumEnv"
_MINES = "llm_gym.envs.deduction.minesweeper.env:MinesweeperEnv"
_FIFTEEN = "llm_gym.envs.puzzles.fifteen_puzzle:FifteenPuzzleEnv"
_2048 = "llm_gym.envs.puzzles.game_2048.env:Game2048Env"
_SUDOKU = "llm_gym.envs.puzzles.sudoku.env:SudokuEnv"
_HANOI = "llm_gym.envs.puzzles.tower_of_hanoi:TowerOfHanoiEnv"
_COIN = "llm_gym.envs.navigation.coin_collector:CoinCollectorEnv"
_COOKING = "llm_gym.envs.navigation.cooking_world.env:CookingWorldEnv"
_CONNECT_FOUR = "llm_gym.envs.board_games.connect_four:ConnectFourEnv"
_TIC_TAC_TOE = "llm_gym.envs.board_games.tic_tac_toe:TicTacToeEnv"
_MATH = "llm_gym.envs.tool_use.math_python.env:MathPythonEnv"
_SEARCH = "llm_gym.envs.tool_use.search_qa:SearchQAEnv"
_SQL = "llm_gym.envs.tool_use.text_to_sql.env:TextToSQLEnv"

ENVS: tuple[EnvRow, ...] = (
    EnvRow("llm_gym/TextGame-v0", _GAME),
    EnvRow(
        "llm_gym/TextGameEasy-v0",
        _GAME,
        {
            "rooms": 4,
            "items": 2,
            "quest_length": 2,
            "locks": 0,
            "hints": 4,
            "names": 8,
            "style": "terse",
            "max_turns": 16,
        },
    ),
    # No hints: a reflex that sees only the last observation fails here, a memory does not.
    EnvRow(
        "llm_gym/TextGameMedium-v0",
        _GAME,
        {
            "rooms": 9,
            "items": 2,
            "quest_length": 4,
            "locks": 1,
            "names": 12,
            "style": "terse",
            "max_turns": 28,
        },
    ),
    EnvRow(
        "llm_gym/TextGameHard-v0",
        _GAME,
        {"rooms": 12, "items": 8, "quest_length": 9, "locks": 2, "max_turns": 100},
    ),
    EnvRow("llm_gym/GuessTheNumber-v0", _GUESS),
    # The presets Easy and Hard have the parameters of GEM's, so that results compare.
    EnvRow("llm_gym/GuessTheNumberEasy-v0", _GUESS, {"low": 1, "high": 10, "max_turns": 4}),
    EnvRow("llm_gym/GuessTheNumberHard-v0", _GUESS, {"low": 1, "high": 50, "max_turns": 7}),
    # FrozenLake and Hard have the parameters of TextArena's; Slippery those of Gymnasium's.
    EnvRow("llm_gym/FrozenLake-v0", _LAKE, {"size": 4, "holes": 3, "max_turns": 100}),
    EnvRow("llm_gym/FrozenLakeHard-v0", _LAKE, {"size": 5, "holes": 6, "max_turns": 100}),
    EnvRow("llm_gym/FrozenLakeSlippery-v0", _LAKE, {"slip": 2 / 3, "max_turns": 100}),
    # Hard has the parameters of GEM's and Easy its field, with fewer mines: with GEM's five it is
    # harder than the field of Minesweeper-v0, which is TextArena's.
    EnvRow("llm_gym/Minesweeper-v0", _MINES),
    EnvRow("llm_gym/MinesweeperNoGuess-v0", _MINES, {"no_guess": True}),
    EnvRow(
        "llm_gym/MinesweeperEasy-v0", _MINES, {"rows": 5, "cols": 5, "mines": 3, "max_turns": 25}
    ),
    EnvRow(
        "llm_gym/MinesweeperHard-v0", _MINES, {"rows": 8, "cols": 8, "mines": 12, "max_turns": 64}
    ),
    EnvRow("llm_gym/Sudoku-v0", _SUDOKU),
    # Easy and Hard have the grids of GEM's, whose "clues" are the cells that it empties; Hard has
    # half as many turns again as cells to fill.
    EnvRow("llm_gym/SudokuEasy-v0", _SUDOKU, {"size": 4, "clues": 6, "max_turns": 15}),
    EnvRow("llm_gym/SudokuHard-v0", _SUDOKU, {"size": 9, "clues": 31, "max_turns": 75}),
    EnvRow("llm_gym/TowerOfHanoi-v0", _HANOI),
    # Easy and Hard have the disks and turns of GEM's, whose start and goal are always the same.
    EnvRow("llm_gym/TowerOfHanoiEasy-v0", _HANOI, {"disks": 3, "max_turns": 10}),
    EnvRow("llm_gym/TowerOfHanoiHard-v0", _HANOI, {"disks": 5, "max_turns": 35}),
    EnvRow("llm_gym/FifteenPuzzle-v0", _FIFTEEN),
    # Easy and Hard have the sizes and turns of GEM's, Full those of TextArena's; half of the
    # boards of both cannot be solved.
    EnvRow(
        "llm_gym/FifteenPuzzleEasy-v0", _FIFTEEN, {"size": 2, "scramble": None, "max_turns": 10}
    ),
    EnvRow("llm_gym/FifteenPuzzleHard-v0", _FIFTEEN, {"size": 4, "scramble": 50, "max_turns": 50}),
    EnvRow(
        "llm_gym/FifteenPuzzleFull-v0", _FIFTEEN, {"size": 4, "scramble": None, "max_turns": 200}
    ),
    # CoinCollector, Easy and Hard have the parameters of TextWorld's levels 105, 5 and 210.
    EnvRow("llm_gym/CoinCollector-v0", _COIN, {"level": 5, "dead_ends": 1, "max_turns": 20}),
    EnvRow("llm_gym/CoinCollectorEasy-v0", _COIN, {"level": 5, "dead_ends": 0, "max_turns": 10}),
    EnvRow("llm_gym/CoinCollectorHard-v0", _COIN, {"level": 10, "dead_ends": 2, "max_turns": 50}),
    EnvRow("llm_gym/CookingWorld-v0", _COOKING),
    EnvRow(
        "llm_gym/CookingWorldEasy-v0",
        _COOKING,
        {
            "rooms": 1,
            "ingredients": 1,
            "distractors": 2,
            "containers": 0,
            "cut": False,
            "max_turns": 12,
        },
    ),
    # Hard has as many rooms, ingredients and distractors as TextWorldExpress's has at most.
    EnvRow(
        "llm_gym/CookingWorldHard-v0",
        _COOKING,
        {"rooms": 11, "ingredients": 5, "distractors": 10, "containers": 3, "max_turns": 100},
    ),
    EnvRow("llm_gym/Game2048-v0", _2048),
    # Easy and Hard have the targets of GEM's; with its turns Easy is harder than Game2048-v0, and
    # Hard cannot be won.
    EnvRow("llm_gym/Game2048Easy-v0", _2048, {"target": 64, "max_turns": 60}),
    EnvRow("llm_gym/Game2048Hard-v0", _2048, {"target": 512, "max_turns": 350}),
    EnvRow("llm_gym/TicTacToe-v0", _TIC_TAC_TOE),
    # Easy is against a random opponent, as in the examples of many trainers.
    EnvRow("llm_gym/TicTacToeEasy-v0", _TIC_TAC_TOE, {"opponent": 0.0}),
    EnvRow("llm_gym/TicTacToeHard-v0", _TIC_TAC_TOE, {"opponent": 0.7}),
    EnvRow("llm_gym/ConnectFour-v0", _CONNECT_FOUR),
    EnvRow("llm_gym/ConnectFourEasy-v0", _CONNECT_FOUR, {"opponent": 0.0}),
    EnvRow("llm_gym/ConnectFourHard-v0", _CONNECT_FOUR, {"opponent": 1.0}),
    # Mastermind has the parameters of TextArena's, Easy those of GEM's, Hard those of both, and
    # Extreme TextArena's again.
    EnvRow("llm_gym/Mastermind-v0", _MASTERMIND),
    EnvRow(
        "llm_gym/MastermindEasy-v0", _MASTERMIND, {"code_length": 2, "numbers": 6, "max_turns": 10}
    ),
    EnvRow(
        "llm_gym/MastermindHard-v0", _MASTERMIND, {"code_length": 4, "numbers": 8, "max_turns": 30}
    ),
    EnvRow(
        "llm_gym/MastermindExtreme-v0",
        _MASTERMIND,
        {"code_length": 6, "numbers": 12, "duplicates": True, "max_turns": 50},
    ),
    # Sokoban and Hard have the parameters of GEM's easy and hard; Easy those of RAGEN's.
    EnvRow("llm_gym/Sokoban-v0", _SOKOBAN),
    EnvRow("llm_gym/SokobanEasy-v0", _SOKOBAN, {"boxes": 1, "min_pushes": 2, "max_turns": 10}),
    EnvRow(
        "llm_gym/SokobanHard-v0",
        _SOKOBAN,
        {"size": 8, "boxes": 4, "min_pushes": 6, "max_turns": 50},
    ),
    # Wordle and Long have the parameters of TextArena's; Easy those of GEM's, whose hard one allows
    # 25 turns and so is easier than Wordle: ours allows 4.
    EnvRow("llm_gym/Wordle-v0", _WORDLE),
    EnvRow("llm_gym/WordleLong-v0", _WORDLE, {"word_length": 7, "max_turns": 9}),
    EnvRow("llm_gym/WordleEasy-v0", _WORDLE, {"word_length": 3, "max_turns": 15}),
    EnvRow("llm_gym/WordleHard-v0", _WORDLE, {"word_length": 5, "max_turns": 4}),
    EnvRow("llm_gym/Maze-v0", _MAZE),
    EnvRow("llm_gym/MazeEasy-v0", _MAZE, {"size": 3, "max_turns": 20}),
    EnvRow("llm_gym/MazeHard-v0", _MAZE, {"size": 10, "max_turns": 200}),
    EnvRow("llm_gym/MazePartial-v0", _MAZE, {"loops": 0.1, "view": 2, "max_turns": 100}),
    # Hangman has the lives of TextArena's. Long words show more with every letter, so GEM's levels
    # (3 letters easy, 7 hard) are the wrong way round and not taken over.
    EnvRow("llm_gym/Hangman-v0", _HANGMAN),
    EnvRow("llm_gym/HangmanEasy-v0", _HANGMAN, {"word_length": 7, "lives": 10}),
    EnvRow("llm_gym/HangmanHard-v0", _HANGMAN, {"word_length": 5, "lives": 4}),
    # WordLadder, Medium and Hard have the distances and turns of TextArena's.
    EnvRow("llm_gym/WordLadder-v0", _LADDER),
    EnvRow(
        "llm_gym/WordLadderEasy-v0",
        _LADDER,
        {"word_length": 3, "min_distance": 2, "max_distance": 3, "hints": True, "max_turns": 10},
    ),
    EnvRow(
        "llm_gym/WordLadderMedium-v0",
        _LADDER,
        {"word_length": 5, "min_distance": 8, "max_distance": 12, "max_turns": 100},
    ),
    EnvRow(
        "llm_gym/WordLadderHard-v0",
        _LADDER,
        {"word_length": 5, "min_distance": 13, "max_distance": 15, "max_turns": 100},
    ),
    # Countdown has the numbers and targets of TinyZero's, Hard those of reasoning-gym's,
    # and Steps those of TextArena's, which has one fixed instance.
    EnvRow("llm_gym/Countdown-v0", _COUNTDOWN),
    EnvRow("llm_gym/CountdownEasy-v0", _COUNTDOWN, {"numbers": 3}),
    EnvRow(
        "llm_gym/CountdownHard-v0",
        _COUNTDOWN,
        {"numbers": 6, "max_number": 100, "min_target": 100, "max_target": 999},
    ),
    EnvRow(
        "llm_gym/CountdownSteps-v0",
        _COUNTDOWN,
        {
            "numbers": 6,
            "max_number": 10,
            "large": 2,
            "min_target": 100,
            "max_target": 999,
            "use_all": False,
            "stepwise": True,
            "max_turns": 12,
        },
    ),
    # LetterCounting and ChainSum have the parameters of reasoning-gym's.
    EnvRow("llm_gym/LetterCounting-v0", _LETTERS),
    EnvRow("llm_gym/LetterCountingEasy-v0", _LETTERS, {"min_words": 1, "max_words": 3}),
    EnvRow("llm_gym/ChainSum-v0", _SUM),
    EnvRow("llm_gym/ChainSumEasy-v0", _SUM, {"max_terms": 2, "max_digits": 1}),
    # By the rules of Gymnasium's Blackjack-v1; Casino has the shoe and the dealer of many casinos.
    EnvRow("llm_gym/Blackjack-v0", _BLACKJACK),
    EnvRow("llm_gym/BlackjackCasino-v0", _BLACKJACK, {"decks": 6, "hits_soft_17": True}),
    # Bandit has the parameters of TextArena's, Hard its number of buttons.
    EnvRow("llm_gym/Bandit-v0", _BANDIT),
    EnvRow("llm_gym/BanditEasy-v0", _BANDIT, {"arms": 2, "gap": 0.4, "max_turns": 10}),
    EnvRow("llm_gym/BanditHard-v0", _BANDIT, {"arms": 10, "gap": 0.1, "max_turns": 60}),
    # With tools: Python in the sandbox, search over a collection, and SQL.
    EnvRow("llm_gym/MathPython-v0", _MATH),
    EnvRow("llm_gym/MathPythonEasy-v0", _MATH, {"steps": 2, "digits": 2}),
    EnvRow("llm_gym/MathPythonHard-v0", _MATH, {"steps": 8, "digits": 5}),
    EnvRow("llm_gym/SearchQA-v0", _SEARCH),
    EnvRow("llm_gym/SearchQAEasy-v0", _SEARCH, {"hops": 1, "documents": 20, "max_turns": 4}),
    EnvRow("llm_gym/SearchQAHard-v0", _SEARCH, {"hops": 4, "documents": 200, "max_turns": 8}),
    EnvRow("llm_gym/TextToSQL-v0", _SQL),
    EnvRow("llm_gym/TextToSQLEasy-v0", _SQL, {"tables": 1, "rows": 10}),
    EnvRow("llm_gym/TextToSQLHard-v0", _SQL, {"tables": 3, "rows": 50}),
    EnvRow("llm_gym/Echo-v0", "llm_gym.envs.micro.echo:EchoEnv"),
    EnvRow("llm_gym/Count-v0", "llm_gym.envs.micro.count:CountEnv"),
    EnvRow("llm_gym/Memory-v0", "llm_gym.envs.micro.memory:MemoryEnv"),
    EnvRow("llm_gym/Dataset-v0", "llm_gym.envs.questions.dataset:DatasetEnv"),
)

# No part of the suite: what these play is somebody else's, so they have no score. A row that
# ``needs`` something cannot be made by its id alone, and whoever goes over every id leaves it out.
DOORS: tuple[EnvRow, ...] = (
    EnvRow("llm_gym/AsText-v0", "llm_gym.wrappers.as_text.env:AsTextEnv"),
    *(EnvRow(row.id, row.entry_point, needs=row.package) for row in BRIDGES),
    EnvRow(
        "llm_gym/Remote-v0",
        "llm_gym.server.remote_env:RemoteEnv",
        needs="url=, of a server that llm-gym serve has started",
        vector_entry_point="llm_gym.server.remote_env:RemoteVectorEnv",
    ),
)

NEEDS = {row.id: row.needs for row in DOORS if row.needs}
"""What an id needs beyond itself; one that has an entry here is listed, and never swept over."""


def register_envs() -> None:
    """Add the rows of ``ENVS`` and ``DOORS`` to Gymnasium's registry. Safe to call twice."""
    for row in (*ENVS, *DOORS):
        if row.id not in gym.registry:
            gym.register(
                id=row.id,
                entry_point=row.entry_point,
                vector_entry_point=row.vector_entry_point,
                kwargs=dict(row.kwargs),
                # What these wrappers look for at every step, TextEnv refuses by itself and the
                # tests have checked; without them a light game is a third faster.
                order_enforce=False,
                disable_env_checker=True,
            )
