"""``FailureWatch``: a run whose environment has broken down is stopped, not trained to its end.

An environment fails when it raises, and also when it answers with what no model can read or learn
from: one NaN among the rewards would be in every weight after the next step.
"""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

import numpy as np

from llm_gym.core.outcome import StopReason
from llm_gym.errors import ConfigError
from llm_gym_agents.rollouts.turns import Rollout

PATIENCE = 3
"""Iterations in a row that may lose most of their episodes."""
MOST_REWARD = float(np.finfo(np.float32).max)
"""What the tensors of a batch can hold."""


def wrong_answer(observation: Any, reward: SupportsFloat = 0.0) -> str:
    """Return what is wrong with an answer of an environment, or nothing.

    >>> wrong_answer("You win.", 1), wrong_answer("You win.", float("nan"))
    ('', 'gave a reward of nan, which must be a number that float32 holds')
    >>> wrong_answer("You win.", 10**400)
    'gave a reward of inf, which must be a number that float32 holds'
    """
    if not isinstance(observation, str):
        return f"gave an observation of {type(observation).__name__}, which must be text"
    try:
        paid = float(reward)
    except OverflowError:  # of a whole number, which may have any number of digits
        paid = math.inf
    if abs(paid) <= MOST_REWARD:  # false for NaN too
        return ""
    return f"gave a reward of {paid:g}, which must be a number that float32 holds"


def why_unplayed(rollout: Rollout) -> str:
    """Return why episodes of ``rollout`` were not played: what failed last, or the context."""
    if rollout.failures:
        return "; ".join(rollout.failures[-3:])
    read = max((len(each.states[0]) for each in rollout.unplayed if each.states), default=0)
    return (
        f"no prompt fits the model's context, with observations of up to {read:,} characters; "
        "let the environment say less, or take a model with a longer context"
    )


class FailureWatch:
    """Counts iterations that lost most of their episodes to failures of the environment."""

    def __init__(self) -> None:
        self.bad = 0

    def look(self, iteration: int, rollout: Rollout) -> None:
        """Raise ``ConfigError`` where there is nothing to learn from, now or for a while."""
        episodes = rollout.all_episodes
        failed = sum(episode.stop_reason == StopReason.ERROR for episode in episodes)
        why = why_unplayed(rollout)
        if not rollout.without_failed().episodes:
            raise ConfigError(f"no episode of iteration {iteration} could be played: {why}")
        self.bad = self.bad + 1 if 2 * failed > len(episodes) else 0
        if self.bad >= PATIENCE:
            raise ConfigError(
                f"the environment failed in {failed} of {len(episodes)} episodes of iteration "
                f"{iteration}, and in most of the {PATIENCE - 1} before: {why}"
            )
