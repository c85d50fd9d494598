"""The first process of a cell that may start others: it holds them all, and runs none of the code.

A signal to one process leaves its children running. The first process of a PID namespace can
signal everybody in it at once, and when it ends they end: so here that is a process of ours, and
the code is its child. It listens to the worker over a socket that the code does not have.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

from llm_gym.sandbox.inside import kernel

LETTERS: dict[int, bytes] = {signal.SIGSTOP: b"s", signal.SIGCONT: b"c"}
_SIGNALS = {letter[0]: number for number, letter in LETTERS.items()}


def keep(line: socket.socket, become_cell: Callable[[], None]) -> NoReturn:
    """Start the code in a child; stop and continue all there is, until the child has ended."""
    kernel.die_with_parent(signal.SIGKILL)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        become_cell()
    watch = select.poll()
    for descriptor in (line.fileno(), woken):
        watch.register(descriptor, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in watch.poll()]
        if line.fileno() in ready:
            word = line.recv(64)
            if not word:
                os._exit(1)
            with contextlib.suppress(OSError):
                os.kill(-1, _SIGNALS[word[-1]])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
            _reap(line, child)


def _reap(line: socket.socket, child: int) -> None:
    """Take leave of whoever has ended, orphans among them; with the child we end too."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                line.send(str(os.waitstatus_to_exitcode(status)).encode())
                os._exit(0)
            if pid == 0:
                return


def heard(line: socket.socket, status: int) -> int:
    """Return how the code ended, as its keeper said; ``status`` is how the keeper did."""
    line.setblocking(False)
    try:
        return int(line.recv(16) or status)
    except (OSError, ValueError):
        return status
