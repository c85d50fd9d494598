"""What a comparison is: a game, its moves, and a side for each suite that has it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

OURS = "llm_gym"
PEERS = ("gem", "textarena")


class Side(NamedTuple):
    """A game in one suite."""

    id: str
    kwargs: dict[str, Any] = {}
    action: str = ""
    """How a move is written, with ``{}`` for the move; by default as the suite always wants it."""
    moves: list[str] | None = None
    """Moves of its own, where its language is another one; empty to let the environment choose a
    random usable move each time, outside the clock."""
    players: int = 1
    envs: int = 0
    """Side by side in one vector environment; 0 is a single one."""
    threads: bool = False
    """Whether GEM's vector environment gives each a thread."""


class Game(NamedTuple):
    """One comparison: the same game and parameters in several suites."""

    name: str
    moves: list[str]
    sides: dict[str, Side]
    order: Literal["drawn", "dealt", "given"] = "drawn"
    """Dealt like cards, hardly any move repeats within an episode."""
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
