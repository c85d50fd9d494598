"""Environments on actors of their own: a pool that every player uses.

For environments that are heavy: a browser, a database, a simulator that wants other machines than
the engines. Each ``EnvHost`` serves all players; within it every environment is a process of its
own (``WorkerPool``), so one that hangs or dies is ended and started again by itself, at its own
deadline, and the others go on. A host that is lost with its machine fails the episodes it held;
Ray starts it again, and the next reset of each row builds its environment there.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from llm_gym.vector.local_rows import Factory, Failure, Job, Rows, rows_error
from llm_gym_agents.distributed.calls import ActorLostError, Calls

START_S = 90.0
"""Seconds that a host gets to be started, on top of what its environments may take."""
_LOOK_S = 0.5
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
        try:
            if failures := self._open(list(self._factories)):
                raise rows_error(failures, {})
        except BaseException:
            self.close()
            raise

    def _open(self, hosts: Sequence[Any]) -> dict[int, Failure]:
        """Build the environments at ``hosts``, waiting for those that Ray is starting again."""
        end = time.monotonic() + START_S
        waiting = list(hosts)
        while waiting:
            given = {host: (self._factories[host], self._timeout) for host in waiting}
            _, lost = self._ask("open", given)
            if lost and time.monotonic() > end:
                return {row: _lost(lost[own]) for row, own in self._host.items() if own in lost}
            if waiting := list(lost):
                time.sleep(_LOOK_S)
        return {}

    def run(self, jobs: Sequence[Job]) -> tuple[list[Any], dict[int, Failure]]:
        """Do every job, hosts at the same time."""
        shares: dict[Any, list[Job]] = {}
        for row, operation, argument in jobs:
            shares.setdefault(self._host[row], []).append((self._at[row], operation, argument))
        said, lost = self._ask("run", {host: (share,) for host, share in shares.items()})
        # A host that was lost, or started again, knows nobody; whoever is reset there comes back.
        gone = [host for host in shares if said.get(host) is None]
        back = [host for host in gone if any(job[1] in _OPENS for job in shares[host])]
        failures = self._open(back)
        again, more = self._ask("run", {host: (shares[host],) for host in back})
        said, lost = said | again, lost | more
        answers: dict[int, Any] = {}
        for host, share in shares.items():
            rows = {at: row for row, at in self._at.items() if self._host[row] == host}
            if said.get(host) is None:
                what = _lost(lost.get(host, "started again"))
                failures = {rows[job[0]]: what for job in share} | failures
                continue
            given, failed = said[host]
            answers |= {rows[job[0]]: one for job, one in zip(share, given, strict=True)}
            failures |= {rows[at]: failure for at, failure in failed.items()}
        asked = [row for row, _, _ in jobs]
        return (
            [answers.get(row) for row in asked],
            {row: failures[row] for row in asked if row in failures},
        )

    def _ask(
        self, method: str, arguments: dict[Any, tuple[Any, ...]]
    ) -> tuple[dict[Any, Any], dict[Any, str]]:
        """Call hosts; return what each said, and how others were lost."""
        calls = {
            host: self._calls.call(host, method, self._owner, *given)
            for host, given in arguments.items()
        }
        said: dict[Any, Any] = {}
        lost: dict[Any, str] = {}
        for host, call in calls.items():
            limit = None if self._timeout is None else self._timeout + START_S
            try:
                if not self._calls.ready([call], limit):
                    raise ActorLostError(f"said nothing for {limit:g} s")
                said[host] = self._calls.result(call)
            except ActorLostError as error:
                lost[host] = str(error)
        return said, lost

    def close(self) -> None:
        """Close every environment. Safe to call twice."""
        for host in self._factories:
            self._calls.call(host, "leave", self._owner)


def _lost(how: str) -> Failure:
    return Failure(f"lost the actor that held it ({how}); a reset builds it again", lost=True)


def rows_on(hosts: Sequence[Any]) -> Callable[[Sequence[Factory], float | None], Rows] | None:
    """Return what starts rows on ``hosts``; None where there are none."""
    if not hosts:
        return None

    def start(factories: Sequence[Factory], timeout: float | None) -> Rows:
        return RemoteRows(Calls(), hosts, factories, timeout)

    return start
