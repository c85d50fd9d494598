"""Runs a program that must not outlive whoever started it: ``python guard.py PROGRAM ...``.

A script of its own, with nothing but the standard library. The program has our streams. When the
parent of this process ends, however it does, the program and all that it has started are killed.
Polling, and not ``PR_SET_PDEATHSIG``: that fires when the *thread* which started us ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

_LOOK_S = 0.5


def guarded(command: Sequence[str]) -> list[str]:
    """Return the command that runs ``command`` under guard; where there is none, as it is."""
    if not hasattr(signal, "sigtimedwait"):
        return list(command)
    return [sys.executable, "-I", "-S", "-B", os.path.abspath(__file__), *command]


def main(command: Sequence[str]) -> int:
    """Run ``command`` and return its exit status, or end everything."""
    parent = os.getppid()
    if os.getpgid(0) != os.getpid():
        os.setsid()  # a group of our own, which can be killed as a whole
    ends = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        child = subprocess.Popen(
            command, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    while child.poll() is None:
        came = signal.sigtimedwait(ends, _LOOK_S)
        if os.getppid() != parent or (came is not None and came.si_signo != signal.SIGCHLD):
            os.killpg(0, signal.SIGKILL)
    # What it has left behind would hold our streams open.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    if child.returncode < 0:  # it was killed: so are we, in the same way
        number = -child.returncode
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    return child.returncode & 255


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
