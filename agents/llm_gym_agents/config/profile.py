"""``TaskProfile``: the facts about model, environment and estimator that the defaults depend on.

``commands.plan`` measures them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

MAX_TURNS_PLAYED = 100
"""Turns after which a random episode is truncated."""


@dataclass(frozen=True, kw_only=True)
class TaskProfile:
    """What the rules of ``defaults`` read."""

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
    """The lowest reward of a turn that was seen, 0 at most."""
    random_wins: float = 0.0
    """Share of random episodes that were won."""
    solver_turns: int = 0
    """Turns of the longest episode that a solver won; 0 if there is none."""
    taught: bool = False
    """Whether there is a solver that a warm start may imitate."""
    groups: bool = False
    """Whether the estimator compares episodes of one start by what each earned in all."""
    by_turn: bool = False
    """Whether it can compare their turns instead (``credit``)."""
    by_spread: bool = True
    """Whether it divides by how far they, or its advantages, differ."""
    members: Mapping[str, TaskProfile] = field(default_factory=dict)
    """The environments of a mix, by id; none for a single one."""


# --- what a run of the embedded model costs on one core -------------------------------------------
# Fitted to the runs of ``benchmarks/results/train_all.json``, with two passes over a batch.

EPISODE_S, TURN_S, WORD_S = 7e-4, 2.5e-4, 5e-5
"""CPU seconds of an episode that is played and learned from, of a turn of it, of a word read."""
WARM_START_BATCH = 96
"""Moves of an optimizer step of a warm start."""
WARM_START_TOKENS = 6144
"""Ids that the embedded model reads in such a step, at most: long texts must not take the run."""
PLAYED = 0.4
"""Share of that for what is only played, as in an evaluation."""


def iteration_seconds(profile: TaskProfile, batch: int, evaluated: float) -> float:
    """Return the CPU seconds of an iteration.

    A trained player plays longer than a random one: a quarter is added where the game allows it.

    Args:
        profile: What is trained on what.
        batch: Episodes of it.
        evaluated: Held-out episodes, on average, that are played after it.
    """
    turns = profile.episode_turns
    longer = max(1.0, min(profile.turns or turns, MAX_TURNS_PLAYED, 1.25 * turns) / turns)
    episode = EPISODE_S + longer * (turns * TURN_S + profile.episode_words * WORD_S)
    return episode * (batch + PLAYED * evaluated)
