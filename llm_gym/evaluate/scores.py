"""What a player scores: success rates with intervals, measured or published.

``scores.json`` holds the scores that ``benchmarks/envs/suite_scores.py`` measured for every id, and
a description of each game. So ``llm-gym list`` builds no environment, and normalised scores need no
play.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym

if TYPE_CHECKING:
    from llm_gym.core.env import TextEnv

PLAYERS: dict[str, Callable[[TextEnv], str]] = {
    "random": lambda env: env.random_action(),
    "reflex": lambda env: env.reflex_action(),
    "solver": lambda env: env.solver_action(),
    "oracle": lambda env: env.oracle_action(),
}


LEAST_SCALE = 0.3
"""Minimum difference in success between solver and random player for a normalised score."""


class Score(NamedTuple):
    """A success rate with its 95 % interval, and the length of the episodes in turns."""

    success: float
    low: float
    high: float
    turns: float
    episodes: int


def wilson(wins: int, episodes: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a success rate.

    >>> [round(end, 3) for end in wilson(90, 100)]
    [0.826, 0.945]
    """
    z, rate = 1.959964, wins / episodes
    middle = (rate + z * z / (2 * episodes)) / (1 + z * z / episodes)
    half = math.sqrt(rate * (1 - rate) / episodes + (z / (2 * episodes)) ** 2)
    half *= z / (1 + z * z / episodes)
    return max(0.0, middle - half), min(1.0, middle + half)


def measure(env: gym.Env[str, str], player: str, episodes: int, seed: int = 0) -> Score:
    """Let a player of ``PLAYERS`` play the episodes ``seed``, ``seed + 1``, ..."""
    import statistics

    from llm_gym.core.env import TextEnv  # it imports the whole reader

    act, game = PLAYERS[player], env.unwrapped
    assert isinstance(game, TextEnv)
    wins, turns = 0, []
    for episode in range(seed, seed + episodes):
        env.reset(seed=episode)
        done = False
        while not done:
            _, _, terminated, truncated, info = env.step(act(game))
            done = terminated or truncated
        wins += info["success"]
        turns.append(info["turn"])
    return Score(wins / episodes, *wilson(wins, episodes), statistics.median(turns), episodes)


@cache
def _file() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("scores.json").read_text("utf-8"))
    return found


@cache
def published() -> dict[str, dict[str, Score]]:
    """Return the measured scores: id → player → score."""
    return {
        env_id: {player: Score(*score) for player, score in row.items()}
        for env_id, row in _file()["scores"].items()
    }


def games() -> dict[str, tuple[str, int]]:
    """Return the one-line description and the turns of each game: id → both."""
    return {env_id: (about, turns) for env_id, (about, turns) in _file()["games"].items()}


def normalised(env_id: str, success: float) -> float | None:
    """Return ``success`` scaled so that the random player has 0 and the solver 1.

    None if no scores are published for ``env_id``, or if solver and random player differ by less
    than 30 points, because the result would then be mostly noise.
    """
    row = published().get(env_id, {})
    if not {"random", "solver"} <= row.keys():
        return None
    floor, ceiling = row["random"].success, row["solver"].success
    return (success - floor) / (ceiling - floor) if ceiling - floor >= LEAST_SCALE else None
