"""One actor of a group as the trainer sees it, and the lots that it was given."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from llm_gym_agents.distributed.host import Facts, Played
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Rollout


class Cluster(Protocol):
    """Where actors live: a Ray cluster, or this process."""

    def start(self, make: Any, argument: Any, name: str) -> Any: ...
    def put(self, value: Any) -> Any: ...
    def call(self, actor: Any, method: str, *args: Any) -> Any: ...
    def ready(self, calls: Sequence[Any], timeout: float | None) -> list[Any]: ...
    def result(self, call: Any) -> Any: ...
    def kill(self, actor: Any) -> None: ...
    def last_words(self, actor: Any, pid: int) -> str: ...
    def address(self) -> str: ...
    def close(self) -> None: ...


@dataclass(eq=False)
class Lot:
    """Episodes that one actor plays together."""

    tasks: list[EpisodeTask]
    version: int | None
    """Of the weights they must be played with; None where these may change meanwhile."""
    greedy: bool = False
    held_out: bool = False
    call: Any = None
    played: Rollout | None = None
    wanted: bool = True
    """False when the run went another way before it was played."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """For ``SamplerHost.play``."""
        return self.tasks, self.version, self.greedy, self.held_out


@dataclass(eq=False)
class Member:
    """An actor: who it is, what it was given, and how it does."""

    index: int
    actor: Any = None
    facts: Facts | None = None
    """None while it is being started."""
    lots: deque[Lot] = field(default_factory=deque)
    """Given to it and not done, oldest first: the first is being played."""
    since: float = 0.0
    """When the first of its lots can have begun, at the latest."""
    deaths: int = 0
    """In a row, without a lot from it."""
    tokens: int = 0
    busy_s: float = 0.0

    @property
    def name(self) -> str:
        """As it is shown."""
        return f"sampler {self.index}"

    def overdue_in(self, timeout: float | None) -> float | None:
        """Return the seconds until its first lot is overdue; None if it never is."""
        if timeout is None or not self.lots:
            return None
        return self.since + timeout - time.monotonic()

    def finish(self, played: Played) -> None:
        """Note that the first of its lots is done."""
        lot = self.lots.popleft()
        lot.played = played.rollout
        self.deaths, self.since = 0, time.monotonic()
        self.tokens += played.rollout.tokens
        self.busy_s += played.busy_s
