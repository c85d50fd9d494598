"""``FailureWatch``: a run whose environment has broken down is stopped, not trained to its end."""

from __future__ import annotations

from llm_gym.core.outcome import StopReason
from llm_gym.errors import ConfigError
from llm_gym_agents.rollouts.turns import Rollout

PATIENCE = 3
"""Iterations in a row that may lose most of their episodes."""


class FailureWatch:
    """Counts iterations that lost most of their episodes to failures of the environment."""

    def __init__(self) -> None:
        self.bad = 0

    def look(self, iteration: int, rollout: Rollout) -> None:
        """Raise ``ConfigError`` where there is nothing to learn from, now or for a while."""
        episodes = rollout.all_episodes
        failed = sum(episode.stop_reason == StopReason.ERROR for episode in episodes)
        why = "; ".join(rollout.failures[-3:]) or "no prompt fits the context"
        if not rollout.without_failed().episodes:
            raise ConfigError(f"no episode of iteration {iteration} could be played: {why}")
        self.bad = self.bad + 1 if 2 * failed > len(episodes) else 0
        if self.bad >= PATIENCE:
            raise ConfigError(
                f"the environment failed in {failed} of {len(episodes)} episodes of iteration "
                f"{iteration}, and in most of the {PATIENCE - 1} before: {why}"
            )
