"""``check_isolation``: tests on this machine whether code can escape from the sandbox.

Each probe is first run without isolation. If it does not succeed there, its failure under
isolation proves nothing, and it is not counted.
"""

import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import NamedTuple

from llm_gym.tools.sandbox.sandbox import Sandbox

PROBES = {
    "read a file outside": "print('ESCAPED', open('$SECRET').read())",
    "list a folder outside": "import os\nprint('ESCAPED', os.listdir(os.path.dirname('$SECRET')))",
    "write to a file outside": "open('$SECRET', 'a').write('x'); print('ESCAPED')",
    "read /proc of the program outside": "print('ESCAPED', open('/proc/$PID/cmdline').read())",
    "connect over TCP": """
import socket
print('ESCAPED', socket.create_connection(('127.0.0.1', $PORT), 1))""",
    "send a datagram": """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', $PORT))
print('ESCAPED')""",
    "send a datagram to a socket in a file": """
import socket
one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
one.sendto(b'x', '$SECRET.datagrams')
print('ESCAPED')""",
    "signal the program outside": "import os, signal\nos.kill($PID, signal.SIGUSR1)",
    "start a process": "import os\nif os.fork() == 0: os._exit(0)\nprint('ESCAPED')",
    "run a program": """
import subprocess, sys
print('ESCAPED', subprocess.run([sys.executable, '-c', ''], check=True))""",
    "share memory": """
import ctypes
if ctypes.CDLL(None).memfd_create(b'x', 0) >= 0: print('ESCAPED')""",
}
"""Code that tries to escape, by kind of attempt; harmless if it succeeds."""
LATE_S = 30.0
"""Seconds after which a probe counts as endless; generous, for a busy machine."""


class Finding(NamedTuple):
    """The result of one probe."""

    name: str
    contained: bool
    detail: str = ""
    counted: bool = True
    """Whether the probe succeeded without isolation."""


class Outside:
    """Targets for the probes outside the sandbox, and the damage to them."""

    def __init__(self, folder: Path) -> None:
        self.secret = secrets.token_hex(16)
        self.file = folder / "secret"
        self.file.write_text(self.secret)
        self.file.chmod(0o600)
        self.status = self._stat()
        self.sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port = self.sockets[0].getsockname()[1]
        for family, kind, address in (
            (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", self.port)),
            (socket.AF_UNIX, socket.SOCK_STREAM, f"{self.file}.socket"),
            (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.port}"),  # an abstract name
            (socket.AF_UNIX, socket.SOCK_DGRAM, f"{self.file}.datagrams"),
        ):
            target = socket.socket(family, kind)
            target.bind(address)
            if kind == socket.SOCK_STREAM:
                target.listen()
            self.sockets.append(target)
        for target in self.sockets:
            target.setblocking(False)
        self.signals: list[int] = []

    def _stat(self) -> tuple[int, int, int, float]:
        found = self.file.stat()
        return found.st_mode, found.st_uid, found.st_nlink, found.st_mtime

    def damage(self) -> str:
        """Return the damage in words, "" for none."""
        if not self.file.exists() or self.file.read_text() != self.secret:
            return "the file outside was changed"
        if self._stat() != self.status:
            return "mode, owner, links or times of the file outside were changed"
        if self.signals:
            return f"a signal came from inside: {self.signals}"
        for target in self.sockets:
            try:
                target.recv(1) if target.type == socket.SOCK_DGRAM else target.accept()[0].close()
            except BlockingIOError:
                continue
            return "something came over the network"
        return ""

    def close(self) -> None:
        for target in self.sockets:
            target.close()


@contextmanager
def outside() -> Iterator[Outside]:
    """Create the targets: a file, an environment variable and an open descriptor."""
    with tempfile.TemporaryDirectory() as folder:
        place = Outside(Path(folder))
        before = signal.signal(signal.SIGUSR1, lambda number, _: place.signals.append(number))
        os.environ["LLM_GYM_SECRET"] = place.secret
        descriptor = os.open(place.file, os.O_RDONLY)
        os.set_inheritable(descriptor, True)
        try:
            yield place
        finally:
            os.close(descriptor)
            os.environ.pop("LLM_GYM_SECRET", None)
            signal.signal(signal.SIGUSR1, before)
            place.close()


def attempt(
    sandbox: Sandbox, name: str, code: str, place: Outside, timeout: float = 0.5
) -> Finding:
    """Run one probe in ``sandbox``."""
    code = Template(code).substitute(SECRET=place.file, PORT=place.port, PID=os.getpid())
    took = []
    for _ in range(2):  # the second finds what the first has left behind
        result = sandbox.run(code, timeout=timeout)
        output = result.stdout + result.stderr + result.error
        if "ESCAPED" in result.stdout or place.secret in output:
            return Finding(name, False, output[:200])
        took.append(result.seconds)
    if min(took) > timeout + LATE_S:
        return Finding(name, False, f"ended after {min(took):.2f} s instead of {timeout}")
    if damage := place.damage():
        return Finding(name, False, damage)
    if sandbox.run("print(6 * 7)", timeout=10).stdout != "42\n":
        return Finding(name, False, "the next call does not work")
    return Finding(name, True, result.error or "nothing happened")


def succeeds_without_isolation(name: str, code: str) -> bool:
    """Return whether a probe succeeds without isolation."""
    with outside() as place, Sandbox(isolation="none") as open_sandbox:
        return not attempt(open_sandbox, name, code, place, timeout=20.0).contained


def check_isolation(sandbox: Sandbox) -> list[Finding]:
    """Try every probe on ``sandbox``, which must not have been used before.

    Call it from the main thread: it listens for signals.
    """
    with outside() as place:
        findings = [attempt(sandbox, name, code, place) for name, code in PROBES.items()]
    return [
        finding._replace(counted=succeeds_without_isolation(finding.name, PROBES[finding.name]))
        for finding in findings
    ]
