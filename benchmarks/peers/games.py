"""The games that are compared: one row each, with the same parameters in every suite."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

OURS = "llm_gym"
PEERS = ("gem", "textarena")


class Game(NamedTuple):
    """One comparison: the same game and parameters in several suites."""

    name: str
    moves: list[str]
    """Every move of the game; random ones are played."""
    suites: dict[str, tuple[str, dict[str, Any]]]
    """Suite → (id, arguments)."""
    distinct: bool = False
    """Deal the moves like cards, so that hardly any repeats within an episode."""


def guess(low: int, high: int, max_turns: int) -> Game:
    theirs = {"min_number": low, "max_number": high, "max_turns": max_turns}
    return Game(
        f"GuessTheNumber {low}-{high}, {max_turns} turns",
        [str(number) for number in range(low, high + 1)],
        {
            OURS: ("llm_gym/GuessTheNumber-v0", {"low": low, "high": high, "max_turns": max_turns}),
            "gem": ("game:GuessTheNumber-v0-easy", theirs),
            "textarena": ("GuessTheNumber-v0-raw", theirs),
        },
        distinct=True,
    )


GAMES: tuple[Game, ...] = (
    guess(1, 10, 4),  # GEM easy
    guess(1, 50, 7),  # GEM hard
    guess(1, 20, 10),  # TextArena
    Game(
        "FrozenLake 4x4, 3 holes, 100 turns",
        ["up", "down", "left", "right"],
        {
            OURS: ("llm_gym/FrozenLake-v0", {"size": 4, "holes": 3, "max_turns": 100}),
            "textarena": ("FrozenLake-v0-raw", {"size": 4, "num_holes": 3}),
        },
    ),
)


def random_moves(game: Game, count: int = 5000) -> list[str]:
    """Return the moves that are played again and again, drawn before any clock runs."""
    rng = np.random.default_rng(0)
    if not game.distinct:
        return [str(move) for move in rng.choice(game.moves, count)]
    deals = -(-count // len(game.moves))
    return [str(move) for _ in range(deals) for move in rng.permutation(game.moves)]
