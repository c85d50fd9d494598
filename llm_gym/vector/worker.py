"""What runs in a worker process: build the environments, then do jobs until told to stop."""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from llm_gym.vector.local_rows import Failure, TextualEnv, build, close_all, run_jobs

_F_SETSIG = 10  # Python 3.11 has no name for it
CLOSE_SECONDS = 5.0
"""Time that environments get to close before their process is ended."""


def dumps(message: object) -> bytes:
    """Return a pickle of ``message``, whatever it takes."""
    try:
        return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # Functions and classes of a script or a notebook travel by value, at some cost.
        return bytes(cloudpickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def serve(pipe: Connection, lifeline: Connection, position: Any, factories: bytes) -> None:
    """Build environments, then do the jobs of each message until the pipe is closed.

    ``position`` is shared with the parent: the job at work, so that it can name a row that hangs.
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
        except Exception as error:  # noqa: BLE001 - it is raised again, in the parent
            failures[row] = Failure(f"raised {type(error).__name__}: {error}", error=error)
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
    told = {
        row: failure._replace(
            error=None,
            traceback="".join(traceback.format_exception(failure.error)),
        )
        for row, failure in failures.items()
    }
    try:
        return dumps((answers, told))
    except Exception:  # noqa: BLE001 - pickling runs the code of whatever is inside
        return dumps(_sendable(answers, told))


def _sendable(
    answers: dict[int, Any], failures: dict[int, Failure]
) -> tuple[dict[int, Any], dict[int, Failure]]:
    """Turn the answers that cannot be pickled into failures of their rows."""
    kept = {}
    for row, answer in answers.items():
        try:
            dumps(answer)
        except Exception as error:  # noqa: BLE001 - as above
            what = f"answered with something that cannot be sent between processes: {error}"
            failures[row] = Failure(what)
        else:
            kept[row] = answer
    return kept, failures


def end_with(lifeline: Connection) -> None:
    """Have the kernel kill this process when the other end of ``lifeline`` is gone.

    Nothing is ever written to it, so the only news is that whoever held it has died. The kernel
    does the killing, so that it works in the middle of C code that holds the interpreter's lock.
    ``PR_SET_PDEATHSIG`` would do so too, but also when only the thread ends that started us.
    """
    f_setsig = getattr(fcntl, "F_SETSIG", _F_SETSIG) if sys.platform == "linux" else None
    if f_setsig is None:
        return
    fcntl.fcntl(lifeline.fileno(), fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline.fileno(), f_setsig, signal.SIGKILL)
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
