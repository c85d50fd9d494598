"""The games that a peer has too: one row each, with the same parameters in every suite.

A row lists moves that every suite understands; each side defines their form. A peer that cannot be
built, for example because it must download a word list, is skipped with a reason.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import Any, Literal, NamedTuple

import numpy as np

OURS = "llm_gym"
PEERS = ("gem", "textarena")


class Side(NamedTuple):
    """A game in one suite."""

    id: str
    kwargs: dict[str, Any] = {}
    action: str = ""
    """The form of a move, with ``{}`` for the move; by default the form of the suite."""
    moves: list[str] | None = None
    """Moves in another language, if the suite needs it; if empty, the environment chooses random
    usable moves while the clock is stopped."""
    players: int = 1
    envs: int = 0
    """Environments in one vector environment; 0 means a single environment."""
    threads: bool = False
    """Whether GEM's vector environment gives each a thread."""


class Game(NamedTuple):
    """One comparison: the same game and parameters in several suites."""

    name: str
    moves: list[str]
    sides: dict[str, Side]
    order: Literal["drawn", "dealt", "given"] = "drawn"
    """``dealt`` is like cards: hardly any move repeats within an episode."""
    note: str = ""


def moves_of(game: Game, suite: str, count: int = 5000) -> list[str]:
    """Return the moves that are played again and again, drawn before any clock runs."""
    moves = game.sides[suite].moves
    moves = game.moves if moves is None else moves
    rng = np.random.default_rng(0)
    times = -(-count // len(moves)) if moves else 0
    if game.order == "given":
        return moves * times
    if game.order == "dealt":
        return [str(move) for _ in range(times) for move in rng.permutation(moves)]
    return [str(move) for move in rng.choice(moves, count)] if moves else []


DIRECTIONS = ["up", "down", "left", "right"]
WORDS = ["crane", "slate", "stone", "table", "house", "plant", "light", "water", "bread", "chair"]
TWICE = "TextArena ends an episode at the second unusable move in a row, so it resets more often."


def guess(low: int, high: int, max_turns: int) -> Game:
    theirs = {"min_number": low, "max_number": high, "max_turns": max_turns}
    return Game(
        f"GuessTheNumber {low}-{high}, {max_turns} turns",
        [str(number) for number in range(low, high + 1)],
        {
            OURS: Side(
                "llm_gym/GuessTheNumber-v0", {"low": low, "high": high, "max_turns": max_turns}
            ),
            "gem": Side("game:GuessTheNumber-v0-easy", theirs),
            "textarena": Side("GuessTheNumber-v0-raw", theirs),
        },
        order="dealt",
    )


def mastermind(length: int, numbers: int, max_turns: int) -> Game:
    theirs = {"code_length": length, "num_numbers": numbers, "max_turns": max_turns}
    ours = {"code_length": length, "numbers": numbers, "history": False, "max_turns": max_turns}
    return Game(
        f"Mastermind {length} of {numbers}, {max_turns} turns",
        [" ".join(map(str, code)) for code in permutations(range(1, numbers + 1), length)],
        {
            OURS: Side("llm_gym/Mastermind-v0", ours),
            "gem": Side("game:Mastermind-v0-hard", theirs),
            "textarena": Side("Mastermind-v0-raw", theirs),
        },
        order="dealt",
    )


def minesweeper(side: int, mines: int, max_turns: int) -> Game:
    theirs = {"rows": side, "cols": side, "num_mines": mines, "max_turns": max_turns}
    ours = {"rows": side, "cols": side, "mines": mines, "max_turns": max_turns}
    return Game(
        f"Minesweeper {side}x{side}, {mines} mines, {max_turns} turns",
        [f"{row} {col}" for row, col in product(range(side), repeat=2)],
        {
            OURS: Side("llm_gym/Minesweeper-v0", ours, "reveal {}"),
            "gem": Side("game:Minesweeper-v0-easy", theirs, r"\boxed{{reveal {}}}"),
            "textarena": Side("Minesweeper-v0-raw", theirs),
        },
        order="dealt",
        note=TWICE,
    )


def hanoi(disks: int, max_turns: int) -> Game:
    theirs = {"num_disks": disks, "max_turns": max_turns}
    return Game(
        f"TowerOfHanoi {disks} disks, {max_turns} turns",
        ["A B", "B A", "A C", "C A"],
        {
            OURS: Side("llm_gym/TowerOfHanoi-v0", {"disks": disks, "max_turns": max_turns}),
            "gem": Side("game:TowerofHanoi-v0-easy", theirs),
            "textarena": Side("TowerOfHanoi-v0-raw", theirs),
        },
        order="given",
        note="The smallest disk goes to and fro, so that every move is usable in every suite.",
    )


def sudoku(size: int, clues: int, max_turns: int) -> Game:
    numbers = range(1, size + 1)
    sides = {
        OURS: Side("llm_gym/Sudoku-v0", {"size": size, "clues": clues, "max_turns": max_turns}),
        "gem": Side("game:Sudoku-v0-easy", {"scale": size, "clues": clues, "max_turns": max_turns}),
    }
    if size == 9:
        sides["textarena"] = Side("Sudoku-v0-raw", {"clues": clues, "max_turns": max_turns})
    return Game(
        f"Sudoku {size}x{size}, {clues} clues, {max_turns} turns",
        [" ".join(map(str, move)) for move in product(numbers, repeat=3)],
        sides,
        note=f"Most of these moves are wrong, for every suite alike. {TWICE}",
    )


def fifteen(max_turns: int) -> Game:
    return Game(
        f"FifteenPuzzle 4x4, {max_turns} turns",
        DIRECTIONS,
        {
            OURS: Side(
                "llm_gym/FifteenPuzzle-v0", {"size": 4, "scramble": None, "max_turns": max_turns}
            ),
            "gem": Side("game:FifteenPuzzle-v0-hard", {"num_rows": 4, "max_turns": max_turns}),
            "textarena": Side("FifteenPuzzle-v0-raw", {"max_turns": max_turns}),
        },
        note=TWICE,
    )


def game_2048(target: int, max_turns: int) -> Game:
    return Game(
        f"Game2048 to {target}, {max_turns} turns",
        DIRECTIONS,
        {
            OURS: Side("llm_gym/Game2048-v0", {"target": target, "max_turns": max_turns}),
            "gem": Side("game:Game2048-v0-easy", {"target_tile": target, "max_turns": max_turns}),
            "textarena": Side("2048-v0-raw", {"target_tile": target}),
        },
        note=f"TextArena's has no limit of turns. {TWICE}",
    )


GAMES: tuple[Game, ...] = (
    guess(1, 10, 4),  # GEM easy
    guess(1, 50, 7),  # GEM hard
    guess(1, 20, 10),  # TextArena
    mastermind(4, 8, 30),
    minesweeper(5, 5, 25),
    minesweeper(8, 12, 64),
    hanoi(3, 10),
    hanoi(5, 35),
    sudoku(4, 10, 15),
    sudoku(9, 50, 50),
    fifteen(200),
    game_2048(64, 50),
    game_2048(512, 350),
    Game(
        "Sokoban 6x6, 2 boxes, 20 turns",
        DIRECTIONS,
        {
            OURS: Side("llm_gym/Sokoban-v0", {"size": 6, "boxes": 2, "max_turns": 20}),
            "gem": Side(
                "game:Sokoban-v0-easy", {"dim_room": (6, 6), "num_boxes": 2, "max_turns": 20}
            ),
            "textarena": Side(
                "Sokoban-v0-raw", {"dim_room": (6, 6), "num_boxes": 2, "max_turns": 20}
            ),
        },
        note=TWICE,
    ),
    Game(
        "FrozenLake 4x4, 3 holes, 100 turns",
        DIRECTIONS,
        {
            OURS: Side("llm_gym/FrozenLake-v0", {"size": 4, "holes": 3, "max_turns": 100}),
            "textarena": Side("FrozenLake-v0-raw", {"size": 4, "num_holes": 3}),
        },
    ),
    Game(
        "Blackjack, one hand",
        ["hit", "stand"],
        {
            OURS: Side("llm_gym/Blackjack-v0"),
            "textarena": Side("Blackjack-v0-raw", {"num_hands": 1}),
        },
    ),
    Game(
        "Bandit 5 arms, 20 turns",
        ["red", "blue", "green", "yellow", "purple"],
        {
            OURS: Side(
                "llm_gym/Bandit-v0", {"arms": 5, "gap": 0.1, "summary": False, "max_turns": 20}
            ),
            "textarena": Side("Bandit-v0-raw", {"p_gap": 0.1, "num_turns": 20}),
        },
    ),
    Game(
        "Countdown 6 numbers, step by step",
        ["0 1 +", "1 0 +"],
        {OURS: Side("llm_gym/CountdownSteps-v0", moves=[]), "textarena": Side("Countdown-v0-raw")},
        note=(
            "Moves are indices in TextArena's and numbers in ours, which depend on the state and "
            "are chosen outside the clock. TextArena's has one instance; ours draws one."
        ),
    ),
    Game(
        "TicTacToe",
        [str(square) for square in range(9)],
        {
            OURS: Side("llm_gym/TicTacToeEasy-v0", moves=[str(square) for square in range(1, 10)]),
            "textarena": Side("TicTacToe-v0-raw", players=2),
        },
        order="dealt",
        note="A step of ours includes the answer of its opponent; TextArena's is one ply of two.",
    ),
    Game(
        "ConnectFour 6x7",
        [str(column) for column in range(7)],
        {
            OURS: Side("llm_gym/ConnectFourEasy-v0", moves=[str(column) for column in range(1, 8)]),
            "textarena": Side("ConnectFour-v0-raw", players=2),
        },
        note="A step of ours includes the answer of its opponent; TextArena's is one ply of two.",
    ),
    Game(
        "Wordle 5 letters, 6 turns",
        WORDS,
        {
            OURS: Side("llm_gym/Wordle-v0", {"word_length": 5, "max_turns": 6}),
            "gem": Side("game:Wordle-v0-hard", {"max_turns": 6}),
            "textarena": Side("Wordle-v0-raw"),
        },
        order="dealt",
    ),
    Game(
        "Hangman 7 letters, 20 turns",
        list("etaoinshrdlcumwfgypbvkjxqz"),
        {
            OURS: Side("llm_gym/Hangman-v0", {"word_length": 7, "lives": 20, "max_turns": 20}),
            "gem": Side("game:Hangman-v0-hard"),
            "textarena": Side("Hangman-v0-raw"),
        },
        order="dealt",
        note="TextArena's has words of any length and six lives.",
    ),
    Game(
        "WordLadder 5 to 7 steps, 100 turns",
        WORDS,
        {OURS: Side("llm_gym/WordLadder-v0", moves=[]), "textarena": Side("WordLadder-v0-raw")},
        note="Usable moves depend on the state; ours are chosen outside the clock.",
    ),
)

# Games in a vector environment of 64: a fast one, which measures the vector environment itself,
# and two of typical speed.
VECTORS: tuple[Game, ...] = tuple(
    game._replace(
        name=f"64 x {game.name}",
        sides={
            OURS: game.sides[OURS]._replace(envs=64),
            "gem": game.sides["gem"]._replace(envs=64),
            "gem threads": game.sides["gem"]._replace(envs=64, threads=True),
        },
        note="",
    )
    for game in (guess(1, 50, 7), mastermind(4, 8, 30), minesweeper(5, 5, 25))
)
