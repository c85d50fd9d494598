"""``Iterate``: what an iteration is. Episodes are played, learned from, and the weights published.

Read this first: every other name of the trainer is a step of ``Iterate.__call__``, or what is kept
around it.

Shapes: E episodes, S tokens of all packed sequences.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from llm_gym_agents.batch.assemble import assemble
from llm_gym_agents.batch.rollout_data import RolloutData
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.lessons import Lessons
from llm_gym_agents.learn.not_finite import NotFiniteError
from llm_gym_agents.learn.publish import Publishes
from llm_gym_agents.learn.schedule import Curriculum, Schedule
from llm_gym_agents.rollouts.evaluation import episode_metrics
from llm_gym_agents.rollouts.recorder import RolloutRecorder
from llm_gym_agents.run import metrics
from llm_gym_agents.run.process import SigtermListener
from llm_gym_agents.run.timing import GpuMonitor


@dataclass(kw_only=True)
class Iterate:
    """Plays, learns and publishes, once at every call.

    Args:
        config: Every setting of the run.
        schedule: Names the episodes and the learning rate of an iteration.
        curriculum: Moves their difficulty.
        lessons: Plays the episodes.
        learner: Learns from them.
        publisher: Hands the new weights to who plays.
        recorder: Writes some of the episodes.
        folder: Where a batch that broke the numbers is left, to be looked at.
    """

    config: ConfigStore
    schedule: Schedule
    curriculum: Curriculum
    lessons: Lessons
    learner: Learner
    publisher: Publishes
    recorder: RolloutRecorder
    folder: Path

    def __call__(self, iteration: int, elapsed_s: float, stop: SigtermListener) -> dict[str, float]:
        """Do ``iteration``, counted from 0; return what is to be known about it.

        The run has taken ``elapsed_s`` before; ``metrics.ELAPSED`` is what it has taken then.
        """
        start = time.perf_counter()
        watch = GpuMonitor(self.learner.device)
        self.publisher.publish_if_outdated()
        # Named before they are played, so neither speed nor failures decide what is learned from.
        tasks = self.schedule.tasks(iteration, self.curriculum.difficulty)
        lesson = self.lessons.play(iteration, tasks, self.publisher.version, stop)
        data = assemble(lesson.rollout.ending_after(self.schedule.turn_limit))
        played = time.perf_counter()
        self.publisher.sleep_until_published()  # where one GPU is shared, its memory is needed
        recorded = self.recorder.is_due(iteration + 1)
        learned = self._learn(iteration, data, lesson.greedy_E, recorded=recorded)
        updated = time.perf_counter()
        published = self.publisher.publish(iteration + 1)
        if recorded:
            self.recorder.record(iteration + 1, lesson.rollout, self.learner.trained())
        end = time.perf_counter()
        row = episode_metrics(lesson.rollout) | learned | published | lesson.metrics
        read = data.ids_S.numel()
        row |= watch.metrics(self.learner.model, read, learned, updated - played)
        if self.config.environment.curriculum is not None:
            row["env/difficulty"] = self.curriculum.difficulty
            self.curriculum.update(row[metrics.TRAIN_SUCCESS])
        moments, all_s = (start, played, updated, end), elapsed_s + (end - start)
        return row | metrics.timing(*moments, sampled=data.tokens, read=read, all_s=all_s)

    def _learn(
        self, iteration: int, data: RolloutData, greedy_E: Tensor | None, *, recorded: bool
    ) -> dict[str, float]:
        told = self.schedule.update_settings(iteration)
        try:
            return self.learner.update(data, **told, greedy_scores_E=greedy_E, recorded=recorded)
        except NotFiniteError as error:
            place = self.folder / f"not-finite-{iteration:06d}.safetensors"
            raise error.saved(place) from error
