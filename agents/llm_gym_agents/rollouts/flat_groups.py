"""Playing further groups in place of those whose episodes all scored the same.

An estimator that compares episodes of one start learns nothing where all of them scored the same:
as a policy gets good, or while it is still poor, more and more of a batch is played for nothing.
DAPO calls the cure dynamic sampling. What is played instead is named beforehand too: a function of
the group it replaces and of the try, so a run that was killed goes on to the same numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

from llm_gym.episodes import Trajectory
from llm_gym_agents.rollouts.tasks import EpisodeTask, further_tasks
from llm_gym_agents.rollouts.turns import Rollout
from llm_gym_agents.run import metrics

Play = Callable[[Sequence[EpisodeTask]], Rollout]
"""Plays episodes and settles their rewards."""


def replace_flat_groups(
    rollout: Rollout, tasks: Sequence[EpisodeTask], play: Play, *, run: int, tries: int
) -> tuple[Rollout, dict[str, float]]:
    """Return the batch with other groups for those without spread, and what was done.

    The batch stays as large as it was: a group for which no try brought one with spread is kept.

    Args:
        rollout: Of ``tasks``, rewards settled.
        tasks: What was named for this iteration.
        play: For what is played in addition.
        run: The run's seed.
        tries: Most further groups for each.
    """
    first = rollout.episodes
    flat = flat_groups(first)
    found = {"group/flat_at_first": len(flat) / max(len({task.group for task in tasks}), 1)}
    replaced = played = 0
    for attempt in range(1, tries + 1):
        if not flat:
            break
        named = [task for task in tasks if task.group in flat]
        further = further_tasks(named, run, attempt)
        stands_for = {new.group: old.group for new, old in zip(further, named, strict=True)}
        fresh = play(further)
        played += len(further)
        kept = set(stands_for) & _groups(fresh.episodes) - flat_groups(fresh.episodes)
        gone = {stands_for[group] for group in kept}
        rollout = _exchange(rollout, fresh, gone, kept)
        flat -= gone
        replaced += len(kept)
    found |= {"group/replaced": float(replaced), "group/played_further": float(played)}
    # Success of what was named at first: that of the batch is drawn to the middle by now.
    if first:
        found[metrics.TRAIN_SUCCESS] = sum(each.success for each in first) / len(first)
    return rollout, found


def flat_groups(episodes: Sequence[Trajectory]) -> set[int]:
    """Return the groups whose episodes all have the same reward; one that is alone is such."""
    rewards: dict[int, set[float]] = defaultdict(set)
    for episode in episodes:
        rewards[int(episode.group or 0)].add(episode.total_reward)
    return {group for group, seen in rewards.items() if len(seen) == 1}


def _groups(episodes: Sequence[Trajectory]) -> set[int]:
    return {int(episode.group or 0) for episode in episodes}


def _exchange(
    rollout: Rollout, fresh: Rollout, gone: Collection[int], kept: Collection[int]
) -> Rollout:
    """Return ``rollout`` without the groups ``gone`` and with the groups ``kept`` of ``fresh``.

    It stays in id order: what is played further has later ids than all before it.
    """
    stay = rollout.where(lambda episode: int(episode.group or 0) not in gone)
    come = fresh.where(lambda episode: episode.group in kept)
    return rollout._replace(
        episodes=stay.episodes + come.episodes,
        turns=stay.turns + come.turns,
        closings=stay.closings + come.closings,
    )
