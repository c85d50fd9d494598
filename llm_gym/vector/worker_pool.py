"""Environments in worker processes, for those that are slow to step.

Row ``i`` lives in worker ``i % workers``. A call sends every worker one message with all of its
jobs and waits for one answer from each, so workers run at the same time. A worker that dies or
hangs is ended and takes its rows with it; the next reset of one of them starts it again. Read
``WorkerPool.run`` first; the other side is ``worker.serve``.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from multiprocessing.util import Finalize
from typing import Any

import cloudpickle

from llm_gym.vector.local_rows import Factory, Failure, Job, rows_error
from llm_gym.vector.worker import CLOSE_SECONDS, dumps, serve

START_SECONDS = 60.0
"""Least time that a worker gets to start and to build its environments."""
_LOOK_SECONDS = 1.0
_NOT_BEGUN = -1

# Forked children would share locks and threads with this process (and with its CUDA context).
_spawn = multiprocessing.get_context("spawn")


class Worker:
    """This side of one process: its rows, its pipe, and the jobs it still owes an answer."""

    def __init__(self, factories: dict[int, Factory]) -> None:
        self.rows = tuple(factories)
        self._factories: bytes = cloudpickle.dumps(factories)
        self.alive = False
        self.jobs: Sequence[Job] = ()

    def start(self) -> None:
        """Start the process, which answers once its environments are built."""
        self.pipe, theirs = _spawn.Pipe()
        read, self.lifeline = _spawn.Pipe(duplex=False)
        self.position = _spawn.RawValue("l", _NOT_BEGUN)
        self.process = _spawn.Process(
            target=serve,
            args=(theirs, read, self.position, self._factories),
            name=f"llm_gym worker of rows {self.rows}",
            # Not a daemon: those may not have children, and tools often start some.
            daemon=False,
        )
        self._expect([(row, "build", None) for row in self.rows])
        self.alive = True
        with theirs, read:
            self.process.start()

    def send(self, jobs: Sequence[Job], message: bytes) -> None:
        """Ask for ``jobs``, of which ``message`` is the pickle."""
        self._expect(jobs)
        with contextlib.suppress(OSError):
            self.pipe.send_bytes(message)

    def _expect(self, jobs: Sequence[Job]) -> None:
        self.jobs, self.silent, self._seen = jobs, 0.0, _NOT_BEGUN
        self.position.value = _NOT_BEGUN

    def look(self, seconds: float) -> None:
        """Count ``seconds`` of silence, unless a new job was begun since the last look."""
        at = self.position.value
        self.silent = self.silent + seconds if at == self._seen else 0.0
        self._seen = at

    def lose(self, what: str) -> dict[int, Failure]:
        """End the process and return the fate of its rows: ``what`` for the one at work."""
        culprit = self.jobs[max(self.position.value, 0)][0]
        self.end()
        fate = Failure(f"went down with the worker of row {culprit}", lost=True)
        return {culprit: Failure(what, lost=True)} | {
            row: fate for row in self.rows if row != culprit
        }

    def end(self) -> None:
        """End the process now, politely and then not."""
        if self.alive:
            self.pipe.close()
            if self.process.pid is not None:
                self.process.terminate()
                self.process.join(CLOSE_SECONDS)
                if self.process.exitcode is None:
                    self.process.kill()
                    self.process.join()
            self.lifeline.close()
            self.alive = False


class WorkerPool:
    """Environments spread over worker processes.

    Args:
        factories: One per row.
        workers: Number of processes.
        timeout: Seconds that a row may take for one job; None waits for ever.
    """

    def __init__(self, factories: Sequence[Factory], workers: int, timeout: float | None) -> None:
        self._timeout = timeout
        self._workers = [
            Worker({row: factories[row] for row in range(first, len(factories), workers)})
            for first in range(workers)
        ]
        # Runs when the pool is forgotten and, before multiprocessing waits for its children to
        # end by themselves, at the end of the program.
        self._finalize = Finalize(self, _close, args=(self._workers,), exitpriority=10)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            if failures := self._start(self._workers):
                raise rows_error(failures, {})
            undo.pop_all()

    def close(self) -> None:
        self._finalize()

    def run(self, jobs: Sequence[Job]) -> tuple[list[Any], dict[int, Failure]]:
        """Do every job, workers at the same time, rows of one worker in order.

        A row of a worker that is gone fails, unless it is to be reset: that starts the worker.
        """
        shares: dict[Worker, list[Job]] = {}
        for job in jobs:
            shares.setdefault(self._workers[job[0] % len(self._workers)], []).append(job)
        messages = {worker: dumps(share) for worker, share in shares.items()}
        gone = [worker for worker in shares if not worker.alive]
        failures = self._start(
            worker for worker in gone if any(job[1] in ("reset", "begin") for job in shares[worker])
        )
        for worker in gone:
            if not worker.alive:
                fate = Failure("lost the worker process; a reset starts it again", lost=True)
                failures = dict.fromkeys(worker.rows, fate) | failures
        asked = [worker for worker in shares if worker.alive]
        with _answers_or_end(asked):
            for worker in asked:
                worker.send(shares[worker], messages[worker])
            answers, more = _receive(asked, self._timeout)
        return [answers.get(job[0]) for job in jobs], failures | more

    def _start(self, workers: Iterable[Worker]) -> dict[int, Failure]:
        starting = list(workers)
        limit = None if self._timeout is None else max(self._timeout, START_SECONDS)
        with _answers_or_end(starting):
            for worker in starting:
                worker.start()
            _, failures = _receive(starting, limit)
        for worker in starting:
            if failures.keys() & worker.rows:
                worker.end()
        return failures


@contextlib.contextmanager
def _answers_or_end(workers: Iterable[Worker]) -> Iterator[None]:
    # After an interrupt, a late answer would be taken for that of the next call.
    try:
        yield
    except BaseException:
        for worker in workers:
            worker.end()
        raise


def _receive(
    workers: Sequence[Worker], timeout: float | None
) -> tuple[dict[int, Any], dict[int, Failure]]:
    """Collect one answer from each worker."""
    owing = list(workers)
    answers: dict[int, Any] = {}
    failures: dict[int, Failure] = {}
    look = _LOOK_SECONDS if timeout is None else min(_LOOK_SECONDS, timeout / 4)
    while owing:
        ready = wait([worker.pipe for worker in owing], look)
        for worker in list(owing):
            fate = None
            if worker.pipe in ready:
                fate = _read(worker, answers, failures)
            elif not ready:
                worker.look(look)
                fate = _fate(worker, timeout)
            if fate is not None:
                failures |= worker.lose(fate)
            if fate is not None or worker.pipe in ready:
                owing.remove(worker)
    return answers, failures


def _read(worker: Worker, answers: dict[int, Any], failures: dict[int, Failure]) -> str | None:
    """Take in the answer of ``worker``; return how it died if there is none."""
    try:
        message = worker.pipe.recv_bytes()
    except (EOFError, OSError):
        return _obituary(worker)
    try:
        given, failed = pickle.loads(message)
    except Exception as error:  # noqa: BLE001 - loading runs the code of whatever is inside
        what = f"answered with something unreadable here ({type(error).__name__}: {error})"
        failures |= {row: Failure(what) for row, _, _ in worker.jobs}
        return None
    answers |= given
    failures |= failed
    return None


def _fate(worker: Worker, timeout: float | None) -> str | None:
    """Return how a silent worker failed, or None if it may still answer."""
    # A child of the environment may hold the pipe open after the worker itself is dead.
    if not worker.process.is_alive() and not worker.pipe.poll():
        return _obituary(worker)
    if timeout is not None and worker.silent >= timeout:
        return f"took more than {timeout:g} s"
    return None


def _obituary(worker: Worker) -> str:
    worker.process.join(CLOSE_SECONDS)
    how = f"ended its worker process (exit code {worker.process.exitcode})"
    if worker.jobs[0][1] == "build" and worker.position.value == _NOT_BEGUN:
        how += "; a script must start workers under: if __name__ == '__main__'"
    return how


def _close(workers: Sequence[Worker]) -> None:
    """Let every process close its environments and end; end those that do not."""
    leaving = [worker for worker in workers if worker.alive]
    try:
        for worker in leaving:
            worker.pipe.close()  # the end of its messages is the sign to leave
        while leaving:
            ended = wait([worker.process.sentinel for worker in leaving], CLOSE_SECONDS)
            if not ended:
                break
            leaving = [worker for worker in leaving if worker.process.sentinel not in ended]
    finally:
        for worker in workers:
            worker.end()
