"""Environments in worker processes, for environments with a slow ``step``.

Row ``i`` lives in worker ``i % workers``. A call sends every worker one message with all of its
jobs and waits for one answer from each, so workers run at the same time. A worker that dies or
hangs is ended, and all of its rows fail; the next reset of such a row restarts it. Read
``WorkerPool.run`` first; ``serve`` is the loop of a worker process.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from typing import Any

import cloudpickle

from llm_gym.core.errors import error_words
from llm_gym.vector.rows import (
    Factory,
    Failure,
    Job,
    TextualEnv,
    build,
    close_all,
    rows_error,
    run_jobs,
)

_F_SETSIG = 10  # Linux's; Python 3.11 has no name for it
CLOSE_SECONDS = 5.0
"""Time that environments get to close before their process is ended."""


def dumps(message: object) -> bytes:
    """Return a pickle of ``message``; fall back to cloudpickle for local functions."""
    try:
        return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # Functions and classes of a script or a notebook travel by value, at some cost.
        return bytes(cloudpickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def serve(pipe: Connection, lifeline: Connection, position: Any, factories: bytes) -> None:
    """Build environments, then do the jobs of each message until the pipe is closed.

    ``position`` is shared memory: the index of the running job, by which the parent names a hung
    row.
    """
    end_with(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and decides
    threading.Thread(target=_outlive, daemon=True).start()
    envs: dict[int, TextualEnv] = {}
    try:
        pipe.send_bytes(_build_all(envs, position, factories))
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                pipe.send_bytes(_do_all(envs, position, pipe.recv_bytes()))
    finally:
        close_all(list(envs.values()))


def _build_all(envs: dict[int, TextualEnv], position: Any, factories: bytes) -> bytes:
    failures: dict[int, Failure] = {}
    for at, (row, factory) in enumerate(pickle.loads(factories).items()):
        position.value = at
        try:
            envs[row] = build(row, factory)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - raised again, in the parent
            failures[row] = Failure(f"raised {error_words(error)}", error=error)
            break
    return _pack({}, failures)


def _do_all(envs: dict[int, TextualEnv], position: Any, message: bytes) -> bytes:
    answers: dict[int, Any] = {}
    failures: dict[int, Failure] = {}
    for at, job in enumerate(pickle.loads(message)):
        position.value = at
        (answer,), failed = run_jobs(envs, [job])
        failures |= failed
        if not failed:
            answers[job[0]] = answer
    return _pack(answers, failures)


def _pack(answers: dict[int, Any], failures: dict[int, Failure]) -> bytes:
    # An exception may not survive pickling, so only its words and its traceback travel.
    portable = {
        row: failure._replace(
            error=None, traceback="".join(traceback.format_exception(failure.error))
        )
        for row, failure in failures.items()
    }
    with contextlib.suppress(Exception):  # pickling runs the code of whatever is inside
        return dumps((answers, portable))
    for row, answer in list(answers.items()):
        try:
            dumps(answer)
        except Exception as error:  # noqa: BLE001 - as above
            what = f"answered with something that cannot be sent between processes: {error}"
            portable[row] = Failure(what)
            del answers[row]
    return dumps((answers, portable))


def end_with(lifeline: Connection) -> None:
    """Let the kernel kill this process when the process at the other end of ``lifeline`` dies.

    Nothing is ever written to the pipe, so it becomes readable only when that process has died. The
    kernel sends the signal, so it also ends C code that holds the interpreter lock.
    ``PR_SET_PDEATHSIG`` would also fire when only the thread that started this process ends.
    """
    if sys.platform != "linux":
        return
    import fcntl  # Windows has none

    fcntl.fcntl(lifeline.fileno(), fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline.fileno(), _F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(lifeline.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(lifeline.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)
    if lifeline.poll():  # it was gone before we listened
        os._exit(1)


def _outlive() -> None:
    # A parent that is killed cannot end a worker that hangs; where the kernel does not, this does.
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    threading.Event().wait(CLOSE_SECONDS)
    os._exit(1)


START_SECONDS = 60.0
"""Minimum time that a worker gets to start and to build its environments."""
_LOOK_SECONDS = 1.0
_NOT_BEGUN = -1

# Forked children would share locks and threads with this process (and with its CUDA context).
_spawn = multiprocessing.get_context("spawn")


class WorkerProcess:
    """The parent's handle of one worker process: its rows, its pipe and its unanswered jobs."""

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
        """Send ``message``, the pickle of ``jobs``, to the worker."""
        self._expect(jobs)
        with contextlib.suppress(OSError):
            self.pipe.send_bytes(message)

    def _expect(self, jobs: Sequence[Job]) -> None:
        self.jobs, self.silent, self._seen = jobs, 0.0, _NOT_BEGUN
        self.position.value = _NOT_BEGUN

    def look(self, seconds: float) -> None:
        """Add ``seconds`` of silence, or reset the count if a new job has begun."""
        at = self.position.value
        self.silent = self.silent + seconds if at == self._seen else 0.0
        self._seen = at

    def lose(self, what: str) -> dict[int, Failure]:
        """End the process and return a failure for each row: ``what`` for the running one."""
        culprit = self.jobs[max(self.position.value, 0)][0]
        self.end()
        fate = Failure(f"went down with the worker of row {culprit}", lost=True)
        return dict.fromkeys(self.rows, fate) | {culprit: Failure(what, lost=True)}

    def end(self) -> None:
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
    """Environments spread over worker processes."""

    def __init__(self, factories: Sequence[Factory], workers: int, timeout: float | None) -> None:
        self._timeout = timeout
        self._workers = [
            WorkerProcess({row: factories[row] for row in range(first, len(factories), workers)})
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

        A row of a dead worker fails, except on reset, which starts the worker again.
        """
        shares: dict[WorkerProcess, list[Job]] = {}
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

    def _start(self, workers: Iterable[WorkerProcess]) -> dict[int, Failure]:
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
def _answers_or_end(workers: Iterable[WorkerProcess]) -> Iterator[None]:
    # After an interrupt, a late answer would be taken for that of the next call.
    try:
        yield
    except BaseException:
        for worker in workers:
            worker.end()
        raise


def _receive(
    workers: Sequence[WorkerProcess], timeout: float | None
) -> tuple[dict[int, Any], dict[int, Failure]]:
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


def _read(
    worker: WorkerProcess, answers: dict[int, Any], failures: dict[int, Failure]
) -> str | None:
    """Receive the answer of ``worker``; if there is none, return how the worker died."""
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


def _fate(worker: WorkerProcess, timeout: float | None) -> str | None:
    """Return how a silent worker failed, or None if it may still answer."""
    # A child of the environment may hold the pipe open after the worker itself is dead.
    if not worker.process.is_alive() and not worker.pipe.poll():
        return _obituary(worker)
    if timeout is not None and worker.silent >= timeout:
        return f"took more than {timeout:g} s"
    return None


def _obituary(worker: WorkerProcess) -> str:
    worker.process.join(CLOSE_SECONDS)
    how = f"ended its worker process (exit code {worker.process.exitcode})"
    if worker.jobs[0][1] == "build" and worker.position.value == _NOT_BEGUN:
        how += "; a script must start workers under: if __name__ == '__main__'"
    return how


def _close(workers: Sequence[WorkerProcess]) -> None:
    """Let every process close its environments and end; kill processes that do not end."""
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
