"""Which episodes are played: named before they begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from llm_gym.core.splits import stable_hash
from llm_gym.episodes import Trajectory

IDLE = -1
"""The episode of a row that has nothing to play."""


Which = int | range | None
"""Held-out episodes: the first so many, those of these numbers, or as many as the config says."""


class EpisodeTask(NamedTuple):
    """One episode to be played, named before it begins."""

    id: int
    seed: int
    group: int = 0
    options: dict[str, Any] | None = None


class Cut(IntEnum):
    """Why a policy does not act: it cannot go on with an episode, or not yet."""

    WAIT = -1  # the reply is still being sampled; the row stays where it is
    NO = 0
    CONTEXT = 1


def episode_seed(run: int, group: int) -> int:
    """Return the seed of an environment: 63 bits that depend on run and group alone."""
    return stable_hash(f"episode {run}/{group}")


EVAL_IDS, GREEDY_IDS = 2**40, 2**41
"""Where the ids of episodes begin that are not trained on: ids decide what is sampled."""
FURTHER_IDS, TRY_IDS = 2**42, 2**36
"""Where ids and groups of what is played in place of others begin, and how far tries are apart."""


def training_tasks(
    run: int, iteration: int, *, batch_size: int, group_size: int, options: dict[str, Any] | None
) -> list[EpisodeTask]:
    """Return the episodes of an iteration: a function of run and iteration alone.

    >>> [(task.id, task.group) for task in training_tasks(0, 1, batch_size=4, group_size=2,
    ...                                                   options=None)]
    [(4, 2), (5, 2), (6, 3), (7, 3)]
    """
    first = iteration * batch_size
    return [
        EpisodeTask(id, episode_seed(run, id // group_size), id // group_size, options)
        for id in range(first, first + batch_size)
    ]


def further_tasks(tasks: Sequence[EpisodeTask], run: int, attempt: int) -> list[EpisodeTask]:
    """Return episodes to play in place of ``tasks``: a function of these and the try alone.

    >>> [(task.id - FURTHER_IDS, task.group - FURTHER_IDS, task.seed == episode_seed(0, task.group))
    ...  for task in further_tasks([EpisodeTask(6, 1, 3)], 0, 1)]
    [(68719476742, 68719476739, True)]
    """
    first = FURTHER_IDS + attempt * TRY_IDS
    return [
        EpisodeTask(
            first + task.id, episode_seed(run, first + task.group), first + task.group, task.options
        )
        for task in tasks
    ]


def held_out_tasks(numbers: Iterable[int], options: dict[str, Any] | None) -> list[EpisodeTask]:
    """Return held-out episodes by their numbers: the same ones every time."""
    return [EpisodeTask(EVAL_IDS + at, episode_seed(-1, at), at, options) for at in numbers]


def greedy_tasks(episodes: Sequence[Trajectory]) -> list[EpisodeTask]:
    """Return an episode from every start of ``episodes``, to be played greedily."""
    starts = {episode.seed: episode for episode in episodes}
    return [
        EpisodeTask(GREEDY_IDS + at, episode.seed or 0, at, episode.options)
        for at, episode in enumerate(starts.values())
    ]


def by_options(
    tasks: Mapping[int, EpisodeTask],
) -> Iterator[tuple[dict[str, Any] | None, list[int]]]:
    """Group rows whose options are equal; options are dictionaries and cannot be hashed."""
    groups: list[tuple[dict[str, Any] | None, list[int]]] = []
    for row, task in tasks.items():
        for options, rows in groups:
            if options == task.options:
                rows.append(row)
                break
        else:
            groups.append((task.options, [row]))
    yield from groups
