"""One training iteration: collect episodes, update, publish the new weights.

Read ``IterationRunner.train_iteration`` first: everything else in the trainer is a step of it, or
is kept around it.

Shapes: E episodes, S tokens of all packed sequences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym.registry.sources import EnvSource
from llm_gym_agents.algo import get_advantage
from llm_gym_agents.batch.rollout_data import RolloutData, assemble
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.publish import WeightPublisher
from llm_gym_agents.learn.schedule import Curriculum, Schedule
from llm_gym_agents.learn.stabilizers import NonFiniteError
from llm_gym_agents.rollouts.evaluation import episode_metrics
from llm_gym_agents.rollouts.recorder import RolloutRecorder
from llm_gym_agents.rollouts.rewards import settle_rewards
from llm_gym_agents.rollouts.sampler import Player
from llm_gym_agents.rollouts.tasks import EpisodeTask, greedy_tasks, resample_zero_variance_groups
from llm_gym_agents.rollouts.turns import EnvFailureWatch, Rollout, why_unplayed
from llm_gym_agents.run import metrics
from llm_gym_agents.run.process import SigtermListener
from llm_gym_agents.run.timing import GpuMonitor, timing


@dataclass(kw_only=True)
class IterationRunner:
    """Plays, learns and publishes, once at every call.

    Args:
        config: Every setting of the run.
        schedule: Names the episodes and the learning rate of an iteration.
        curriculum: Moves their difficulty.
        collector: Plays the episodes.
        learner: Learns from them.
        publisher: Hands the new weights to who plays.
        recorder: Writes some of the episodes.
        folder: Where a batch that broke the numbers is left, to be looked at.
    """

    config: ConfigStore
    schedule: Schedule
    curriculum: Curriculum
    collector: BatchCollector
    learner: Learner
    publisher: WeightPublisher
    recorder: RolloutRecorder
    folder: Path

    def train_iteration(
        self, iteration: int, elapsed_s: float, stop: SigtermListener
    ) -> dict[str, float]:
        """Do ``iteration``, counted from 0; return what is to be known about it.

        The run has taken ``elapsed_s`` before; ``metrics.ELAPSED`` is what it has taken then.
        """
        start = time.perf_counter()
        watch = GpuMonitor(self.learner.device)
        self.publisher.publish_if_outdated()
        # Named before they are played, so neither speed nor failures decide what is learned from.
        tasks = self.schedule.tasks(iteration, self.curriculum.difficulty)
        collected = self.collector.collect_batch(iteration, tasks, self.publisher.version, stop)
        data = assemble(collected.rollout.ending_after(self.schedule.turn_limit))
        played = time.perf_counter()
        self.publisher.sleep_until_published()  # where one GPU is shared, its memory is needed
        recorded = self.recorder.is_due(iteration + 1)
        learned = self._learn(iteration, data, collected.greedy_E, recorded=recorded)
        updated = time.perf_counter()
        published = self.publisher.publish(iteration + 1)
        if recorded:
            self.recorder.record(iteration + 1, collected.rollout, self.learner.trained())
        end = time.perf_counter()
        row = episode_metrics(collected.rollout) | learned | published | collected.metrics
        read = data.ids_S.numel()
        row |= watch.metrics(self.learner.model, read, learned, updated - played)
        if self.config.environment.curriculum is not None:
            row["env/difficulty"] = self.curriculum.difficulty
            self.curriculum.update(row[metrics.TRAIN_SUCCESS])
        moments, all_s = (start, played, updated, end), elapsed_s + (end - start)
        return row | timing(*moments, sampled=data.tokens, read=read, all_s=all_s)

    def _learn(
        self, iteration: int, data: RolloutData, greedy_E: Tensor | None, *, recorded: bool
    ) -> dict[str, float]:
        told = self.schedule.update_settings(iteration)
        try:
            return self.learner.update(data, **told, greedy_scores_E=greedy_E, recorded=recorded)
        except NonFiniteError as error:
            place = self.folder / f"not-finite-{iteration:06d}.safetensors"
            raise error.saved(place) from error


# --- collecting a batch ---------------------------------------------------------------

Settle = Callable[[list[Trajectory]], dict[str, float]]
"""Puts final rewards into episodes; returns metrics of it."""


class CollectedBatch(NamedTuple):
    """What is learned from in one iteration."""

    rollout: Rollout
    """Episodes whose rewards are final: no tensor ever holds one that is not."""
    greedy_E: Tensor | None
    """Score of greedy play from each start, where the estimator compares with that."""
    metrics: dict[str, float]


class BatchCollector:
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

    def collect_batch(
        self, iteration: int, tasks: Sequence[EpisodeTask], version: int, stop: SigtermListener
    ) -> CollectedBatch:
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
        return CollectedBatch(rollout, greedy_E, metrics)

    def _beside_greedy(
        self, iteration: int, rollout: Rollout, version: int
    ) -> tuple[Rollout, Tensor | None]:
        """Play every start once more, greedily, if the estimator compares with that.

        What there is nothing to compare with, because that episode failed, is no collected.
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
