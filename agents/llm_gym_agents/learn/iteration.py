"""One training iteration: collect episodes, update, publish the new weights.

Read ``IterationRunner.train_iteration`` first: everything else in the trainer is a step of it or is
built around it.

Shapes: E episodes, S tokens of all packed sequences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Trajectory
from llm_gym.registry.sources import EnvSource
from llm_gym_agents.algo import TokenStream, get_advantage
from llm_gym_agents.algo.tensor_ops import segment_sum
from llm_gym_agents.config import InferenceConfig, TrainingConfig
from llm_gym_agents.engines.publish import WeightPublisher
from llm_gym_agents.learn.branches import all_places, play_branches, state_tensors
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.ppo import estimator_settings
from llm_gym_agents.learn.schedule import Schedule
from llm_gym_agents.learn.single_process import SINGLE_PROCESS, SigtermListener, SingleProcess
from llm_gym_agents.rollouts.evaluation import episode_metrics
from llm_gym_agents.rollouts.mix import ENV
from llm_gym_agents.rollouts.recorder import RolloutRecorder
from llm_gym_agents.rollouts.rewards import apply_reward_fn, reward_metrics
from llm_gym_agents.rollouts.rollout_data import RolloutData, assemble
from llm_gym_agents.rollouts.sampler import Player
from llm_gym_agents.rollouts.tasks import (
    EpisodeTask,
    Rollout,
    resample_zero_variance_groups,
    why_unplayed,
)
from llm_gym_agents.run.metrics import ELAPSED, SAMPLED_TOKENS, TOKENS_PER_SECOND

PATIENCE = 3
"""Iterations in a row that may lose most of their episodes."""
FLAT = 1e-6
"""Largest advantage that counts as 0, because sums of shaping terms have rounding errors."""


@dataclass(kw_only=True)
class IterationRunner:
    """Runs the iterations of a run."""

    schedule: Schedule
    inference: InferenceConfig
    collector: BatchCollector
    learner: Learner
    publisher: WeightPublisher
    recorder: RolloutRecorder

    def train_iteration(
        self, iteration: int, elapsed_s: float, stop: SigtermListener
    ) -> dict[str, float]:
        """Run ``iteration``, after ``elapsed_s`` seconds of training; return its metrics."""
        start = time.perf_counter()
        device = self.learner.model.device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        self.publisher.publish_if_outdated()
        # Chosen before play, so that neither speed nor failures decide what is trained on.
        tasks = self.schedule.tasks(iteration)
        batch = self.collector.collect_batch(iteration, tasks, self.publisher.version, stop)
        bootstraps = self.inference.bootstrap_at_turn_limit
        limit = None if bootstraps else self.inference.max_turns
        data = assemble(batch.rollout.ending_after(limit))
        for name, tensor in batch.states.items():
            setattr(data, name, tensor)
        played = time.perf_counter()
        self.publisher.sleep_until_published()  # on a shared GPU the update needs the memory
        recorded = self.recorder.is_due(iteration + 1)
        settings = self.schedule.update_settings(iteration)
        learned = self.learner.ppo.update(data, **settings, recorded=recorded)
        updated = time.perf_counter()
        published = self.publisher.publish(iteration + 1)
        if recorded:
            self.recorder.record(iteration + 1, batch.rollout, self.learner.ppo.trained)
        end = time.perf_counter()
        row = episode_metrics(batch.rollout) | learned | published | batch.metrics
        if self.learner.ppo.config.group_size > 1:
            flat = flat_groups(data, batch.rollout.episodes, self.learner.ppo.config)
            row["group/zero_variance"] = len(flat) / len(data.group_E.unique())
        if device.type == "cuda":
            row["gpu/memory_peak_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
            row["gpu/memory_gib"] = torch.cuda.memory_allocated(device) / 2**30
        return row | {
            "time/collect_s": played - start,
            "time/update_s": end - played,
            "time/collect_tokens_per_s": data.tokens / (played - start),
            "time/update_tokens_per_s": data.ids_S.numel() / (updated - played),
            TOKENS_PER_SECOND: data.tokens / (end - start),
            ELAPSED: elapsed_s + (end - start),
        }


def flat_groups(
    data: RolloutData, episodes: Sequence[Trajectory], training: TrainingConfig
) -> set[int]:
    """Return the groups without signal: all of their tokens have advantage 0.

    The estimator gets the rewards of ``episodes`` in float64. In the float32 of ``data``, rounding
    makes equal sums of shaping terms differ, and dividing by their standard deviation would amplify
    that.

    For an estimator that does not compare episodes, ``dr_grpo`` decides whether scores are equal.
    """
    spec = get_advantage(training.adv_estimator)
    settings = estimator_settings(spec, training)
    if not spec.needs_groups or spec.needs_critic or spec.needs_states:
        spec, settings = get_advantage("dr_grpo"), {}
    if "whiten" in spec.settings:  # it would move zeros
        settings["whiten"] = False
    reward_T = data.reward_T.double()
    paid = [reward for episode in episodes for reward in episode.rewards]
    reward_T[data.turn_ends_T] = torch.tensor(paid, dtype=torch.float64)
    stream = TokenStream(
        reward_T=reward_T,
        lengths_E=data.lengths_E,
        turn_ends_T=data.turn_ends_T,
        group_E=data.group_E,
    )
    taught_T = spec(stream, **settings).advantages_T.abs() > FLAT
    taught_E = segment_sum(taught_T.long(), data.lengths_E) > 0
    return set(data.group_E.tolist()) - set(data.group_E[taught_E].tolist())


class CollectedBatch(NamedTuple):
    """The episodes of one iteration."""

    rollout: Rollout
    """The episodes, with final rewards."""
    metrics: dict[str, float]
    states: dict[str, Tensor]
    """Fields of ``RolloutData`` about states, for an estimator that uses them."""


class BatchCollector:
    """Plays the episodes that a run trains on and settles their rewards.

    Episodes whose environment failed are dropped. Groups without variance may be resampled.
    """

    def __init__(
        self,
        training: TrainingConfig,
        sampler: Player,
        reward_fn: Callable[..., Any] | None,
        environment: EnvSource,
        ranks: SingleProcess = SINGLE_PROCESS,
    ) -> None:
        self._training, self._sampler, self._ranks = training, sampler, ranks
        self._reward_fn, self._environment = reward_fn, environment
        self._failing = 0
        """Iterations in a row that lost most of their episodes to environment failures."""
        self._spec = get_advantage(training.adv_estimator)

    def collect_batch(
        self, iteration: int, tasks: Sequence[EpisodeTask], version: int, stop: SigtermListener
    ) -> CollectedBatch:
        """Play ``tasks`` with the weights of ``version``."""
        with stop.interruptible():
            everything = self._sampler.play(tasks, version)
        rollout = everything.without_failed()
        self._check_failures(iteration, everything, rollout)
        failed = 1.0 - len(rollout.episodes) / len(everything.episodes)
        found = {"episode/failed": failed} | self._settle(rollout.episodes)
        sampled = everything.tokens

        def play_more(more: Sequence[EpisodeTask]) -> Rollout:
            nonlocal sampled
            with stop.interruptible():
                fresh = self._sampler.play(more, version)
            sampled += fresh.tokens
            fresh = fresh.without_failed()
            self._settle(fresh.episodes)
            return fresh

        if tries := self._training.resample_zero_variance_groups:

            def find_flat(batch: Rollout) -> set[int]:
                known = batch.episodes
                return flat_groups(assemble(batch), known, self._training) if known else set()

            rollout, replaced = resample_zero_variance_groups(
                rollout, tasks, play_more, find_flat, run=self._training.seed, tries=tries
            )
            found |= replaced
        states: dict[str, Tensor] = {}
        if self._spec.needs_states:
            settings = {**self._spec.settings, **estimator_settings(self._spec, self._training)}
            count = int(settings.get("branches", 0))
            before = sampled
            mixed = any(ENV in (task.options or {}) for task in tasks)
            branches = play_branches(play_more, rollout, all_places(rollout), count, mixed=mixed)
            if count:  # the turns that a branch repeats were not sampled
                sampled = before + sum(each.tokens for each in branches)
                found["branch/tokens"] = float(sampled - before)
            states = state_tensors(rollout, branches, settings.get("gamma", 1.0))
        return CollectedBatch(rollout, found | {SAMPLED_TOKENS: float(sampled)}, states)

    def _check_failures(self, iteration: int, everything: Rollout, usable: Rollout) -> None:
        """Raise ``ConfigError`` if nothing could be played, or too little for too long."""
        if not usable.episodes:
            why = why_unplayed(everything)
            raise ConfigError(f"no episode of iteration {iteration} could be played: {why}")
        episodes = everything.all_episodes
        failed = sum(episode.stop_reason == StopReason.ERROR for episode in episodes)
        self._failing = self._failing + 1 if 2 * failed > len(episodes) else 0
        if self._failing >= PATIENCE:
            raise ConfigError(
                f"the environment failed in {failed} of {len(episodes)} episodes of iteration "
                f"{iteration}, and in most of the {PATIENCE - 1} before: {why_unplayed(everything)}"
            )

    def _settle(self, episodes: Sequence[Trajectory]) -> dict[str, float]:
        """Set the final rewards; each process scores a part of the episodes. Return metrics."""
        reward_fn = self._reward_fn
        if reward_fn is None:
            return {}

        def score() -> list[tuple[list[float], Any]]:
            own = self._ranks.share(episodes)
            apply_reward_fn(reward_fn, own, self._environment)
            return [(episode.rewards, episode.extra) for episode in own]

        scored = chain.from_iterable(self._ranks.gather(score))
        for episode, (rewards, extra) in zip(episodes, scored, strict=True):
            episode.rewards, episode.extra = rewards, extra
        return reward_metrics(episodes)
