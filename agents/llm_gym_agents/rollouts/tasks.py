"""Which episodes are played: named before they begin."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

IDLE = -1
"""The episode of a row that has nothing to play."""


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
    TOKENS = 2


def episode_seed(run: int, group: int) -> int:
    """Return the seed of an environment: 63 bits that depend on run and group alone."""
    name = f"episode {run}/{group}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1


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
