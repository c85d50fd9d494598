"""Runs a program and ends it with its parent: ``python guard.py LINE PROGRAM ...``.

This script uses only the standard library. When the parent of this process ends, the program and
all its children are killed. The program shares our streams. If LINE is not 0, a printed line of
more bytes ends the program, because its reader would have to hold the whole line in memory. The
parent is polled, because ``PR_SET_PDEATHSIG`` fires when the *thread* that started us ends.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

_LOOK_S = 0.5
_CHUNK = 1 << 16


def guard_command(command: Sequence[str], *, line_bytes: int = 0) -> list[str]:
    """Return the command that runs ``command`` under the guard; unchanged without guard support.

    Args:
        command: Program and arguments.
        line_bytes: Longest line that the program may print; 0 for no limit.
    """
    if not hasattr(signal, "sigtimedwait"):
        return list(command)
    guard = [sys.executable, "-I", "-S", "-B", os.path.abspath(__file__)]
    return [*guard, str(line_bytes), *command]


def main(line_bytes: int, command: Sequence[str]) -> int:
    """Run ``command`` and return its exit status, or end everything."""
    parent = os.getppid()
    if os.getpgid(0) != os.getpid():
        os.setsid()  # a group of our own, which can be killed as a whole
    ends = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE if line_bytes else None,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, ends),
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    relay = threading.Thread(target=_relay, args=(child, line_bytes), daemon=True)
    if line_bytes:
        relay.start()
    while child.poll() is None:
        came = signal.sigtimedwait(ends, _LOOK_S)
        if os.getppid() != parent or (came is not None and came.si_signo != signal.SIGCHLD):
            os.killpg(0, signal.SIGKILL)
    if line_bytes:
        relay.join(_LOOK_S)  # read the last output; remaining children may print forever
    # Remaining children would hold our streams open.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    if child.returncode < 0:  # a signal killed it: end by the same signal
        number = -child.returncode
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    return child.returncode & 255


def _relay(child: subprocess.Popen[bytes], line_bytes: int) -> None:
    """Copy the output of ``child``; too long a line, or a closed reader, ends everything."""
    assert child.stdout is not None
    source, line = child.stdout.fileno(), 0
    while chunk := os.read(source, _CHUNK):
        end = chunk.rfind(b"\n")
        first = chunk.find(b"\n")
        longest = line + (len(chunk) if end < 0 else first)
        line = line + len(chunk) if end < 0 else len(chunk) - end - 1
        if longest > line_bytes:
            os.write(2, b"it printed a line of more than %d bytes\n" % line_bytes)
            os.killpg(0, signal.SIGKILL)
        try:
            while chunk:
                chunk = chunk[os.write(1, chunk) :]
        except OSError:
            os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
