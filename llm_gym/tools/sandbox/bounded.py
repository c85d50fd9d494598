"""``run_bounded``: runs a function on untrusted data in a child process with limits."""

import os
import select
import signal
import time  # noqa: TID251 - waits for a child; no episode depends on it
import warnings
from collections.abc import Callable
from typing import NoReturn

WALL_S = 120.0


class EndlessError(Exception):
    """Work did not come to an end within its limits."""


def run_bounded(work: Callable[[], str], *, cpu_s: int = 10, memory: int = 1 << 30) -> str:
    """Run ``work`` in a child process with limits and return its text.

    Use it for untrusted files: if the work hangs or uses too much memory, only the child is killed.
    An error of ``work`` is raised as ``ValueError``. Without ``fork`` (Windows), ``work`` is called
    directly.
    """
    if not hasattr(os, "fork"):
        return work()
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about forking with threads: the child only computes
        child = os.fork()
    if child == 0:
        os.close(read)
        _answer(write, work, cpu_s, memory)
    os.close(write)
    try:
        answer = _read_all(read, time.monotonic() + WALL_S)
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    status, text = answer[:1], answer[1:].decode("utf-8", "surrogatepass")
    if status == b"+":
        return text
    if status == b"-":
        raise ValueError(text)
    raise EndlessError(f"it needs more than {cpu_s} s of processor time or {memory >> 20} MiB")


def _answer(write: int, work: Callable[[], str], cpu_s: int, memory: int) -> NoReturn:
    """In the child: write the result or error of ``work``; nothing if memory runs out."""
    import resource  # not on Windows

    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    except OSError:  # no /proc: only the time is limited
        pass
    try:
        answer = b"+" + work().encode("utf-8", "surrogatepass")
    except MemoryError:
        answer = b""
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent is told
        answer = b"-" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")
    try:
        while answer:
            answer = answer[os.write(write, answer) :]
    finally:
        os._exit(0)


def _read_all(pipe: int, deadline: float) -> bytes:
    answer = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        block = os.read(pipe, 1 << 16)
        if not block:
            return answer
        answer += block
    return b""
