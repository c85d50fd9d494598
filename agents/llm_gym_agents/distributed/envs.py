"""Environments on actors of their own: a pool that every player uses.

For environments that are heavy: a browser, a database, a simulator that wants other machines than
the engines. Each ``EnvHost`` serves all players; within it every environment is a process of its
own (``WorkerPool``), so one that hangs or dies is ended and started again by itself, at its own
deadline, and the others go on. A host that is lost with its machine fails the episodes it held;
Ray starts it again, and the next reset of each row builds its environment there.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from llm_gym.errors import WorkerError
from llm_gym.vector.local_rows import Factory, Failure, Job, Rows, rows_error
from llm_gym_agents.distributed.cluster import ActorLostError, Calls

MARGIN_S = 90.0
"""Seconds that a host gets on top of what its environments may take: it may have to start them."""
_OPENS = ("reset", "begin")


class EnvHost:
    """Holds environments for many players. Lives in an actor."""

    def __init__(self, argument: None = None) -> None:
        self._pools: dict[str, Rows] = {}

    def open(self, owner: str, factories: bytes, timeout: float | None) -> None:
        """Build the environments of a player, a process for each."""
        from llm_gym.vector.worker_pool import WorkerPool

        self.leave(owner)
        made: list[Factory] = pickle.loads(factories)
        self._pools[owner] = WorkerPool(made, len(made), timeout)

    def run(self, owner: str, jobs: Sequence[Job]) -> tuple[list[Any], dict[int, Failure]] | None:
        """Do jobs of a player; None if this host has been started again and does not know it."""
        pool = self._pools.get(owner)
        return None if pool is None else pool.run(jobs)

    def leave(self, owner: str) -> None:
        """Close the environments of a player."""
        pool = self._pools.pop(owner, None)
        if pool is not None:
            pool.close()

    def close(self) -> None:
        """Close all of them."""
        for owner in list(self._pools):
            self.leave(owner)


class RemoteRows:
    """The rows of one player, spread over hosts.

    Args:
        calls: The door to Ray.
        hosts: Actors that hold an ``EnvHost``.
        factories: One for each row.
        timeout: Seconds that one row may take.
    """

    def __init__(
        self,
        calls: Calls,
        hosts: Sequence[Any],
        factories: Sequence[Factory],
        timeout: float | None,
    ) -> None:
        self._calls, self._timeout, self._owner = calls, timeout, uuid.uuid4().hex
        first = int(self._owner[:8], 16)  # players begin at different hosts
        self._host = {row: hosts[(first + row) % len(hosts)] for row in range(len(factories))}
        self._at: dict[int, int] = {}
        """Which one a row is at its host."""
        shares: dict[Any, list[Factory]] = {}
        for row, factory in enumerate(factories):
            share = shares.setdefault(self._host[row], [])
            self._at[row] = len(share)
            share.append(factory)
        self._factories = {host: cloudpickle.dumps(share) for host, share in shares.items()}
        if failures := self._open(list(self._factories)):
            self.close()
            raise rows_error(failures, {})

    def _open(self, hosts: Sequence[Any]) -> dict[int, Failure]:
        arguments = {host: (self._factories[host], self._timeout) for host in hosts}
        _, failures = self._ask("open", arguments)
        return failures

    def run(self, jobs: Sequence[Job]) -> tuple[list[Any], dict[int, Failure]]:
        """Do every job, hosts at the same time."""
        shares: dict[Any, list[Job]] = {}
        for row, operation, argument in jobs:
            shares.setdefault(self._host[row], []).append((self._at[row], operation, argument))
        said, failures = self._ask("run", {host: (share,) for host, share in shares.items()})
        # A host that Ray has started again knows nobody; whoever is reset there comes back.
        new = [host for host, answer in said.items() if answer is None]
        back = [host for host in new if any(job[1] in _OPENS for job in shares[host])]
        if back:
            failures |= self._open(back)
            again, more = self._ask("run", {host: (shares[host],) for host in back})
            said, failures = said | again, failures | more
        answers: dict[int, Any] = {}
        for host, answer in said.items():
            rows = {at: row for row, at in self._at.items() if self._host[row] == host}
            if answer is None:
                lost = Failure("lost the actor that held it; a reset builds it again", lost=True)
                failures |= {rows[job[0]]: lost for job in shares[host]}
                continue
            given, failed = answer
            answers |= {rows[job[0]]: one for job, one in zip(shares[host], given, strict=True)}
            failures |= {rows[at]: failure for at, failure in failed.items()}
        asked = [row for row, _, _ in jobs]
        return (
            [answers.get(row) for row in asked],
            {row: failures[row] for row in asked if row in failures},
        )

    def _ask(
        self, method: str, arguments: dict[Any, tuple[Any, ...]]
    ) -> tuple[dict[Any, Any], dict[int, Failure]]:
        """Call hosts; return what each said, and failures of the rows of those that are lost."""
        calls = {
            host: self._calls.call(host, method, self._owner, *given)
            for host, given in arguments.items()
        }
        said: dict[Any, Any] = {}
        failures: dict[int, Failure] = {}
        for host, call in calls.items():
            limit = None if self._timeout is None else self._timeout + MARGIN_S
            try:
                if not self._calls.ready([call], limit):
                    raise ActorLostError(f"said nothing for {limit:g} s")
                said[host] = self._calls.result(call)
            except (ActorLostError, WorkerError) as error:
                what = Failure(f"lost the actor that held it ({error})", lost=True)
                failures |= {row: what for row, own in self._host.items() if own == host}
        return said, failures

    def close(self) -> None:
        """Close every environment. Safe to call twice."""
        for host in self._factories:
            self._calls.call(host, "leave", self._owner)


def rows_on(hosts: Sequence[Any]) -> Callable[[Sequence[Factory], float | None], Rows] | None:
    """Return what starts rows on ``hosts``; None where there are none."""
    if not hosts:
        return None

    def start(factories: Sequence[Factory], timeout: float | None) -> Rows:
        return RemoteRows(Calls(), hosts, factories, timeout)

    return start
