"""Lots: episodes that are played together, and apart from all others.

In its last bits a log-prob depends on what else was in the engine's batch and in its cache. A lot
begins with an empty cache and shares its batches with nobody, so its bits do not depend on who
plays it, where, or after what; and a lot that is lost can be played again to the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Rollout, episode_id


def lots_of(tasks: Sequence[EpisodeTask], size: int | None) -> list[list[EpisodeTask]]:
    """Split tasks into lots of at most ``size``, by id; None leaves them together.

    >>> tasks = [EpisodeTask(id, seed=0) for id in (2, 0, 1)]
    >>> [[task.id for task in lot] for lot in lots_of(tasks, 2)]
    [[0, 1], [2]]
    """
    ordered = sorted(tasks, key=lambda task: task.id)
    step = size or max(len(ordered), 1)
    return [ordered[at : at + step] for at in range(0, len(ordered), step)]


def joined(rollouts: Sequence[Rollout]) -> Rollout:
    """Return several rollouts as one, in id order."""
    if len(rollouts) == 1:
        return rollouts[0]
    played = sorted(
        (
            each
            for rollout in rollouts
            for each in zip(rollout.episodes, rollout.turns, rollout.closings, strict=True)
        ),
        key=lambda each: episode_id(each[0]),
    )
    return Rollout(
        episodes=[episode for episode, _, _ in played],
        turns=[turns for _, turns, _ in played],
        closings=[closing for _, _, closing in played],
        unplayed=sorted(
            (episode for rollout in rollouts for episode in rollout.unplayed), key=episode_id
        ),
        failures=[failure for rollout in rollouts for failure in rollout.failures],
        env_id=rollouts[0].env_id if rollouts else None,
    )
