"""Tasks: which episodes are played, decided before they begin.

Ids, seeds and groups are functions of the run's seed, the iteration and the attempt alone, so a
resumed run plays the same episodes. An id decides what is sampled in an episode.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from llm_gym.core.splits import stable_hash
from llm_gym.episodes import Trajectory
from llm_gym_agents.rollouts.mix import draw_envs, in_env
from llm_gym_agents.rollouts.turns import Prefix, Rollout
from llm_gym_agents.run import metrics

IDLE = -1
"""The episode of a row that has nothing to play."""


EpisodeSelection = int | range | None
"""Held-out episodes: the first n, those of a range, or None for as many as the config says."""


class EpisodeTask(NamedTuple):
    """One episode to be played."""

    id: int
    seed: int
    group: int = 0
    options: dict[str, Any] | None = None
    prefix: Prefix | None = None
    """Turns that are repeated before any is sampled: the episode is a branch of another."""


class ReplyStatus(IntEnum):
    """Whether a row has a reply."""

    PENDING = -1  # still being sampled; the row does not step
    READY = 0
    NO_ROOM = 1  # the context is full; the episode is truncated


def episode_seed(run: int, group: int) -> int:
    """Return the environment seed of a group: 63 bits."""
    return stable_hash(f"episode {run}/{group}")


EVAL_IDS = 2**40
"""First id of held-out episodes."""
RESAMPLE_IDS, TRY_IDS = 2**42, 2**36
"""First id and group of resampled episodes, and the distance from one attempt to the next."""


def training_tasks(
    run: int,
    iteration: int,
    *,
    batch_size: int,
    group_size: int,
    options: dict[str, Any] | None,
    mix: Mapping[str, float] | None = None,
) -> list[EpisodeTask]:
    """Return the episodes of an iteration, of a ``mix`` by weight; a group has one environment.

    >>> [(task.id, task.group) for task in training_tasks(0, 1, batch_size=4, group_size=2,
    ...                                                   options=None)]
    [(4, 2), (5, 2), (6, 3), (7, 3)]
    """
    first, groups = iteration * batch_size, batch_size // group_size
    drawn = draw_envs(mix, run, iteration, groups) if mix else []
    each: list[dict[str, Any] | None] = [in_env(options, env_id) for env_id in drawn]
    each = each or [options] * groups
    return [
        EpisodeTask(
            first + at,
            episode_seed(run, (first + at) // group_size),
            (first + at) // group_size,
            each[at // group_size],
        )
        for at in range(batch_size)
    ]


def resample_tasks(tasks: Sequence[EpisodeTask], run: int, attempt: int) -> list[EpisodeTask]:
    """Return episodes to play in place of ``tasks``.

    >>> (task,) = resample_tasks([EpisodeTask(6, 1, 3)], 0, 1)
    >>> task.id - RESAMPLE_IDS, task.group - RESAMPLE_IDS
    (68719476742, 68719476739)
    """
    first = RESAMPLE_IDS + attempt * TRY_IDS
    return [
        EpisodeTask(
            first + task.id, episode_seed(run, first + task.group), first + task.group, task.options
        )
        for task in tasks
    ]


def held_out_tasks(
    numbers: Iterable[int], options: dict[str, Any] | None, env_ids: Sequence[str] = ()
) -> list[EpisodeTask]:
    """Return held-out episodes by number, of each environment in turn; the same every time."""
    each: list[dict[str, Any] | None] = [in_env(options, env_id) for env_id in env_ids]
    each = each or [options]
    return [
        EpisodeTask(EVAL_IDS + at, episode_seed(-1, at), at, each[at % len(each)]) for at in numbers
    ]


def split_tasks(tasks: Sequence[EpisodeTask], size: int | None) -> list[list[EpisodeTask]]:
    """Split tasks into shards of at most ``size``, by id; None makes one shard.

    The last bits of a log-prob depend on the engine's batch and its prefix cache. A shard that is
    played alone and with a cold cache gives the same bits on every actor, also when it is played
    again after a failure.

    >>> tasks = [EpisodeTask(id, seed=0) for id in (2, 0, 1)]
    >>> [[task.id for task in shard] for shard in split_tasks(tasks, 2)]
    [[0, 1], [2]]
    """
    ordered = sorted(tasks, key=lambda task: task.id)
    step = size or max(len(ordered), 1)
    return [ordered[at : at + step] for at in range(0, len(ordered), step)]


Play = Callable[[Sequence[EpisodeTask]], Rollout]
"""Plays episodes and applies the reward function."""


def resample_zero_variance_groups(
    rollout: Rollout,
    tasks: Sequence[EpisodeTask],
    play: Play,
    find_flat: Callable[[Rollout], set[int]],
    *,
    run: int,
    tries: int,
) -> tuple[Rollout, dict[str, float]]:
    """Replace groups that teach nothing by new ones (DAPO's dynamic sampling).

    The batch keeps its size: a group stays if no attempt gives one that teaches. Returns the batch
    and metrics.

    Args:
        rollout: The episodes of ``tasks``, with final rewards.
        tasks: The episodes of this iteration.
        play: Plays the new episodes.
        find_flat: Returns the groups that teach nothing.
        run: The run's seed.
        tries: Most attempts per group.
    """
    first = rollout.episodes
    flat = find_flat(rollout)
    found = {"group/flat_at_first": len(flat) / max(len({task.group for task in tasks}), 1)}
    replaced = played = 0
    for attempt in range(1, tries + 1):
        if not flat:
            break
        named = [task for task in tasks if task.group in flat]
        further = resample_tasks(named, run, attempt)
        stands_for = {new.group: old.group for new, old in zip(further, named, strict=True)}
        fresh = play(further)
        played += len(further)
        kept = set(stands_for) & _groups(fresh.episodes) - find_flat(fresh)
        gone = {stands_for[group] for group in kept}
        rollout = _exchange(rollout, fresh, gone, kept)
        flat -= gone
        replaced += len(kept)
    found |= {"group/replaced": float(replaced), "group/played_further": float(played)}
    # Success of the first draw: resampling pulls that of the batch to the middle.
    if first:
        found[metrics.TRAIN_SUCCESS] = sum(each.success for each in first) / len(first)
    return rollout, found


def _groups(episodes: Sequence[Trajectory]) -> set[int]:
    return {int(episode.group or 0) for episode in episodes}


def _exchange(
    rollout: Rollout, fresh: Rollout, gone: Collection[int], kept: Collection[int]
) -> Rollout:
    """Return ``rollout`` with the groups ``kept`` of ``fresh`` in place of ``gone``.

    It stays in id order: resampled episodes have later ids.
    """
    stay = rollout.where(lambda episode: int(episode.group or 0) not in gone)
    come = fresh.where(lambda episode: episode.group in kept)
    return rollout._replace(
        episodes=stay.episodes + come.episodes,
        turns=stay.turns + come.turns,
        bootstrap_prompts=stay.bootstrap_prompts + come.bootstrap_prompts,
    )
