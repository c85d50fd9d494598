"""``TaskProfile``: the facts about model, environment and estimator that the defaults depend on.

``commands.plan`` measures them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

MAX_TURNS_PLAYED = 100
"""Turn limit of a random episode."""


@dataclass(frozen=True, kw_only=True)
class TaskProfile:
    """The facts that the rules of ``defaults`` depend on."""

    model: Literal["embedded", "full", "lora"]
    """The built-in small model, a given model, or LoRA adapters on a given model."""
    weights: int = 0
    """Number of weights of a given model; 0 if unknown."""
    thinks: bool = False
    """Whether a given model may think before it replies, by its chat template and vocabulary."""
    env: Literal["suite", "as_text", "other"]
    """A game of this package, an environment under ``AsText``, or another text environment."""
    is_markov: bool = False
    """Whether the current observation is enough to choose a good move."""
    has_potential: bool = False
    """Whether the game has a potential for reward shaping."""
    has_splits: bool = False
    """Whether the instances are split into train, dev and test."""
    move_chars: int = 0
    """Characters of the longest random move; 0 if there is no random player."""
    turns: int | None = None
    """Turn limit of the game; None if it has none."""
    episode_turns: float = 1.0
    """Mean turns of a random episode, at most 100, and 50 if every turn is rewarded."""
    episode_words: float = 32.0
    """Words, digits and punctuation marks in such an episode."""
    worst_reward: float = 0.0
    """Lowest reward of a turn in these episodes, at most 0."""
    random_wins: float = 0.0
    """Share of random episodes that were won."""
    solver_turns: int = 0
    """Turns of the longest episode that the solver won; 0 without a solver."""
    taught: bool = False
    """Whether a warm start may imitate moves that win, such as a solver's."""
    groups: bool = False
    """Whether the estimator compares the returns of episodes with the same start."""
    by_turn: bool = False
    """Whether the estimator can compare single turns instead (``credit``)."""
    by_spread: bool = True
    """Whether the estimator divides by the standard deviation of returns or advantages."""
    members: Mapping[str, TaskProfile] = field(default_factory=dict)
    """Profiles of the environments of a mix, by id; empty for a single environment."""


# --- what a run of the embedded model costs on one core -------------------------------------------
# Fitted to the runs of ``benchmarks/results/train_all.json``, with two passes over a batch.

EPISODE_S, TURN_S, WORD_S = 7e-4, 2.5e-4, 5e-5
"""CPU seconds (play and update) per episode, per turn and per word."""
WARM_START_BATCH = 96
"""Moves per optimizer step of a warm start."""
WARM_START_TOKENS = 6144
"""Maximum ids per step for the embedded model, so that long texts do not take too much time."""
PLAYED = 0.4
"""Share of this time for an episode that is only played, as in an evaluation."""


def iteration_seconds(profile: TaskProfile, batch: int, evaluated: float) -> float:
    """Return the CPU seconds of an iteration with so many episodes and held-out episodes.

    A trained player's episodes are longer than a random player's, so a quarter is added if the game
    allows it.
    """
    turns = profile.episode_turns
    longer = max(1.0, min(profile.turns or turns, MAX_TURNS_PLAYED, 1.25 * turns) / turns)
    episode = EPISODE_S + longer * (turns * TURN_S + profile.episode_words * WORD_S)
    return episode * (batch + PLAYED * evaluated)
