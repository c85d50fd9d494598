"""``Lessons``: the episodes that an iteration learns from, with what they were worth.

Named episodes are played, those whose environment failed are dropped, rewards are settled, groups
that teach nothing may be played anew, and an estimator that compares with greedy play gets that.

Shapes: E episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym.registry.sources import EnvSource
from llm_gym_agents.algo import get_advantage
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.rollouts.rewards import settle_rewards
from llm_gym_agents.rollouts.sampler import Player
from llm_gym_agents.rollouts.tasks import (
    EpisodeTask,
    greedy_tasks,
    resample_zero_variance_groups,
)
from llm_gym_agents.rollouts.turns import EnvFailureWatch, Rollout, why_unplayed
from llm_gym_agents.run.process import SigtermListener

Settle = Callable[[list[Trajectory]], dict[str, float]]
"""Puts final rewards into episodes; returns metrics of it."""


class Lesson(NamedTuple):
    """What is learned from in one iteration."""

    rollout: Rollout
    """Episodes whose rewards are final: no tensor ever holds one that is not."""
    greedy_E: Tensor | None
    """Score of greedy play from each start, where the estimator compares with that."""
    metrics: dict[str, float]


class Lessons:
    """Plays what a run learns from.

    Args:
        config: Every setting of the run.
        sampler: Who plays.
        reward_fn: Says what episodes were worth, if not their environment.
        environment: Handed to ``reward_fn``.
        over: Lets a function settle the rewards of episodes, perhaps some here and some elsewhere.
    """

    def __init__(
        self,
        config: ConfigStore,
        sampler: Player,
        reward_fn: Callable[..., Any] | None,
        environment: EnvSource,
        over: Callable[[list[Trajectory], Settle], dict[str, float]] = lambda all_, settle: settle(
            all_
        ),
    ) -> None:
        self._over = over
        self._config, self._sampler = config, sampler
        self._reward_fn, self._environment = reward_fn, environment
        self._failures = EnvFailureWatch()

    def play(
        self, iteration: int, tasks: Sequence[EpisodeTask], version: int, stop: SigtermListener
    ) -> Lesson:
        """Play the episodes of ``iteration`` with weights of ``version``."""
        with stop.interruptible():
            everything = self._sampler.play(tasks, version)
        self._failures.check(iteration, everything)
        rollout = everything.without_failed()
        failed = 1.0 - len(rollout.episodes) / len(everything.episodes)
        metrics = {"episode/failed": failed} | self._settle(rollout.episodes)
        if tries := self._config.training.resample_zero_variance_groups:

            def further(named: Sequence[EpisodeTask]) -> Rollout:
                with stop.interruptible():
                    fresh = self._sampler.play(named, version).without_failed()
                self._settle(fresh.episodes)
                return fresh

            run = self._config.training.seed
            rollout, replaced = resample_zero_variance_groups(
                rollout, tasks, further, run=run, tries=tries
            )
            metrics |= replaced
        rollout, greedy_E = self._beside_greedy(iteration, rollout, version)
        return Lesson(rollout, greedy_E, metrics)

    def _beside_greedy(
        self, iteration: int, rollout: Rollout, version: int
    ) -> tuple[Rollout, Tensor | None]:
        """Play every start once more, greedily, if the estimator compares with that.

        What there is nothing to compare with, because that episode failed, is no lesson.
        """
        if not get_advantage(self._config.training.adv_estimator).needs_greedy_rollout:
            return rollout, None
        everything = self._sampler.play(greedy_tasks(rollout.episodes), version, greedy=True)
        greedy = everything.without_failed()
        self._settle(greedy.episodes)
        score = {episode.seed: episode.total_reward for episode in greedy.episodes}
        rollout = rollout.where(lambda episode: episode.seed in score)
        if not rollout.episodes:
            why = why_unplayed(everything)
            raise ConfigError(f"no start of iteration {iteration} could be played greedily: {why}")
        return rollout, torch.tensor([score[episode.seed] for episode in rollout.episodes])

    def _settle(self, episodes: list[Trajectory]) -> dict[str, float]:
        mode = self._config.training.reward_mode

        def settle(own: list[Trajectory]) -> dict[str, float]:
            return settle_rewards(self._reward_fn, own, self._environment, mode=mode)

        return self._over(episodes, settle)
