"""Does the sandbox hold? ``try_escapes`` tries every way out and reports what it found."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import NamedTuple

from llm_gym.sandbox.attempts import REACH, READ, WRITE
from llm_gym.sandbox.attempts_kernel import HOLD, NUMBERS, RIGHTS
from llm_gym.sandbox.attempts_power import EXHAUST, GAIN
from llm_gym.sandbox.sandbox import Sandbox

ATTEMPTS = {**READ, **WRITE, **REACH, **GAIN, **EXHAUST, **HOLD, **RIGHTS, **NUMBERS}
"""Code that tries to get out, by what it tries."""
_LATE_S = 30.0  # generous: what does not end at all is what is looked for, not a busy machine


class Finding(NamedTuple):
    """What came of one attempt."""

    name: str
    contained: bool
    detail: str = ""


class Outside:
    """Something to steal, to break and to reach, and what happened to it."""

    def __init__(self, folder: Path) -> None:
        self.secret = secrets.token_hex(16)
        self.file = folder / "secret"
        self.file.write_text(self.secret)
        self.file.chmod(0o600)
        self.status = self._stat()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", self.port))
        self.local = socket.socket(socket.AF_UNIX)
        self.local.bind(f"{self.file}.socket")
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0{self.port}")
        self.sockets = (self.listener, self.datagrams, self.local, self.abstract)
        for plug in (self.local, self.abstract):
            plug.listen()
        for plug in self.sockets:
            plug.setblocking(False)
        self.signals: list[int] = []

    def _stat(self) -> tuple[int, int, int, float]:
        found = self.file.stat()
        return found.st_mode, found.st_uid, found.st_nlink, found.st_mtime

    def damage(self) -> str:
        """Return what was done to it, "" for nothing."""
        if not self.file.exists() or self.file.read_text() != self.secret:
            return "the file outside was changed"
        if self._stat() != self.status:
            return "mode, owner, links or times of the file outside were changed"
        if self.signals:
            return f"a signal came from inside: {self.signals}"
        for plug in self.sockets:
            try:
                plug.recv(1) if plug is self.datagrams else plug.accept()[0].close()
            except BlockingIOError:
                continue
            return "something came over the network"
        return ""

    def close(self) -> None:
        for plug in self.sockets:
            plug.close()


@contextmanager
def outside() -> Iterator[Outside]:
    """Put something valuable outside, in a file, in the environment and in a descriptor."""
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


def attempt(sandbox: Sandbox, name: str, place: Outside, timeout: float = 0.5) -> Finding:
    """Try one way out of ``sandbox``."""
    code = Template(ATTEMPTS[name]).substitute(SECRET=place.file, PORT=place.port, PID=os.getpid())
    took = []
    for _ in range(2):  # the second finds what the first has left behind
        result = sandbox.run(code, timeout=timeout)
        said = result.stdout + result.stderr + result.error
        if "ESCAPED" in result.stdout or place.secret in said:
            return Finding(name, False, said[:200])
        took.append(result.seconds)
    if min(took) > timeout + _LATE_S:
        return Finding(name, False, f"ended after {min(took):.2f} s instead of {timeout}")
    if damage := place.damage():
        return Finding(name, False, damage)
    if sandbox.run("print(6 * 7)", timeout=10).stdout != "42\n":
        return Finding(name, False, "the next call does not work")
    return Finding(name, True, result.error or "nothing happened")


def try_escapes(sandbox: Sandbox, names: Iterable[str] = ATTEMPTS) -> list[Finding]:
    """Try every way out of ``sandbox``, which must not have been used before.

    Call it from the main thread: it listens for signals.
    """
    with outside() as place:
        return [attempt(sandbox, name, place) for name in names]
