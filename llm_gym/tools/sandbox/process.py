"""One sandboxed process, seen from outside: send code, read its output, end it reliably.

Its output is untrusted: lengths are limited, bytes that are not text are replaced, and a malformed
final message is ignored.
"""

import contextlib
import json
import math
import os
import select
import signal
import socket
import struct

# Lint bans the wall clock, because it makes episodes differ; a time limit needs it.
import time  # noqa: TID251
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm_gym.core.errors import LLMGymError
from llm_gym.core.text import shown

_CHUNK = 65536
_MESSAGE_BYTES = 16384
_FLOOD = 64  # the process is ended if it prints more than this many times the kept output
_LONGEST_WAIT = 1_000_000  # longest timeout of one poll in milliseconds
_GRACE = 5.0  # seconds for a killed process to be gone; more means that the worker is stuck


class SandboxError(LLMGymError, RuntimeError):
    """The sandbox is unavailable or has failed. Code inside it never causes this."""


class SandboxFullError(SandboxError):
    """There is no room for another call or session; running ones continue."""


@dataclass(frozen=True)
class SandboxResult:
    r"""The result of running code.

    >>> SandboxResult(stdout="4\n").text()
    '4'
    >>> SandboxResult(ok=False, error="took longer than 2 s", timed_out=True).text()
    'Error: took longer than 2 s'
    """

    stdout: str = ""
    stderr: str = ""
    """Error output of the code and the traceback of its exception, shortened."""
    ok: bool = True
    error: str = ""
    """What went wrong, in one line; empty if ``ok``."""
    exit_code: int = 0
    """Minus the number of the signal if one ended the process."""
    timed_out: bool = False
    truncated: bool = False
    """Whether some of ``stdout`` or ``stderr`` was left out."""
    seconds: float = 0.0

    def text(self) -> str:
        """Return output and error as one text for a model."""
        parts = [self.stdout.rstrip(), self.stderr.rstrip()]
        # A traceback ends with the error without its line number, which comes earlier.
        if self.error and self.error.partition(" (line ")[0] not in self.stderr:
            parts.append(f"Error: {self.error}")
        if self.truncated:
            parts.append("[some output was left out]")
        return "\n".join(part for part in parts if part) or "(no output)"


def describe_exit(exit_code: int) -> str:
    """Return in words how a process ended that sent no final message.

    >>> describe_exit(-11), describe_exit(3)
    ('the process crashed (SIGSEGV)', 'the process ended with exit code 3')
    >>> describe_exit(-9), describe_exit(-200)
    ('the process was killed (SIGKILL)', 'the process crashed (signal 200)')
    >>> describe_exit(-signal.SIGXCPU)
    'used more processor time than it may'
    """
    if exit_code >= 0:
        return f"the process ended with exit code {exit_code}" if exit_code else ""
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    if name == "SIGXCPU":
        return "used more processor time than it may"
    return f"the process {'was killed' if name == 'SIGKILL' else 'crashed'} ({name})"


class _Stream:
    """A pipe out of the process: its beginning is kept, the rest read and dropped."""

    def __init__(self, keep: int) -> None:
        self.descriptor, self.inner = os.pipe()
        os.set_blocking(self.descriptor, False)
        self.keep = 4 * keep  # bytes, for a limit in characters
        self.begin()

    def begin(self) -> None:
        self.kept, self.total = bytearray(), 0

    def read(self) -> bool:
        """Read what is there; return whether there may be more."""
        try:
            data = os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return False
        self.total += len(data)
        self.kept += data[: max(0, self.keep - len(self.kept))]
        return bool(data)

    @property
    def over_limit(self) -> bool:
        return self.total > _FLOOD * self.keep

    def drain(self) -> None:
        while not self.over_limit and self.read():
            pass

    def text(self, limit: int) -> tuple[str, bool]:
        text = shown(self.kept.decode("utf-8", "replace").replace("\r\n", "\n"), keep="\n\t")
        return text[:limit], self.total > len(self.kept) or len(text) > limit


class _Ending(NamedTuple):
    """How a call ended: the final message, or the reason why there is none."""

    message: Mapping[str, Any] | None = None
    error: str = ""
    timed_out: bool = False


class SandboxProcess:
    """One isolated process, which runs code ``once`` or again and again."""

    def __init__(
        self, requests: socket.socket, request: Mapping[str, Any], output_chars: int
    ) -> None:
        self.once: bool = request["once"]
        self.output_chars = output_chars
        self.exit_code: int | None = None
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as inside:
            streams = []
            for _ in range(2):
                streams.append(_Stream(output_chars))
                undo.callback(os.close, streams[-1].descriptor)
                inside.callback(os.close, streams[-1].inner)
            self.out, self.err = streams
            self.channel, channel = map(undo.enter_context, socket.socketpair())
            kind = socket.SOCK_SEQPACKET
            self.signals, signals = map(undo.enter_context, socket.socketpair(socket.AF_UNIX, kind))
            inner = [channel.fileno(), signals.fileno(), self.out.inner, self.err.inner]
            socket.send_fds(requests, [json.dumps(request).encode()], inner)
            undo.pop_all()
            channel.close()
            signals.close()

    def run(self, code: str, timeout: float) -> SandboxResult:
        """Run ``code``; it ends after ``timeout`` seconds at the latest."""
        start = time.monotonic()
        self.out.begin()
        self.err.begin()
        ending = self._wait_for_end(code, timeout, start + timeout)
        if ending.message is None and self.exit_code is None:
            self.kill()
        self.out.drain()
        self.err.drain()
        stdout, cut_out = self.out.text(self.output_chars)
        stderr, cut_err = self.err.text(self.output_chars)
        status, error = self._outcome(ending)
        return SandboxResult(
            stdout=stdout,
            stderr=stderr,
            ok=not error and status == 0,
            error=shown(error),
            exit_code=status,
            timed_out=ending.timed_out,
            truncated=cut_out or cut_err,
            seconds=time.monotonic() - start,
        )

    def signal(self, letter: bytes) -> None:
        """Have the worker send a signal: ``k`` kill, ``s`` stop, ``c`` continue."""
        with contextlib.suppress(OSError):
            self.signals.send(letter)

    def kill(self) -> None:
        """Kill the process with everything in it, and wait until it is gone."""
        if self.exit_code is None:
            self.signal(b"k")
            self.signals.settimeout(_GRACE)
            self._read_status()

    def close(self) -> None:
        """Close every descriptor; a process that is still alive is killed."""
        self.signal(b"k")
        for end in (self.channel, self.signals):
            end.close()
        for stream in (self.out, self.err):
            os.close(stream.descriptor)

    def _wait_for_end(self, code: str, timeout: float, deadline: float) -> _Ending:
        """Send the code; read until the final message, the end of the process, or the deadline."""
        late = _Ending(error=f"took longer than {timeout:g} s", timed_out=True)
        if not self._send(code, deadline):
            return late
        received = bytearray()
        readers = {
            self.channel.fileno(): lambda: self._read(received),
            self.out.descriptor: self.out.read,
            self.err.descriptor: self.err.read,
        }
        poll = select.poll()
        for end in (self.signals.fileno(), *readers):
            poll.register(end, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(min(math.ceil(1000 * left), _LONGEST_WAIT)):
                if descriptor not in readers:
                    self._read_status()
                    self._read(received)
                    return _Ending(_parse_message(received))
                if not readers[descriptor]():
                    poll.unregister(descriptor)
            if self.out.over_limit or self.err.over_limit:
                return _Ending(error="wrote far too much output")
            if not self.once and (message := _parse_message(received)):
                return _Ending(message)
        return late

    def _send(self, code: str, deadline: float) -> bool:
        """Send the code; return False if the process does not take it in time."""
        body = json.dumps({"code": code}).encode()
        self.channel.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            self.channel.sendall(struct.pack(">I", len(body)) + body)
        except TimeoutError:
            return False
        except OSError:
            pass  # the process has ended; the worker reports how
        self.channel.setblocking(False)
        return True

    def _read(self, received: bytearray) -> bool:
        """Add to ``received``; return whether there may be more worth reading."""
        try:
            part = self.channel.recv(_MESSAGE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        received += part
        return bool(part) and len(received) <= _MESSAGE_BYTES

    def _read_status(self) -> None:
        try:
            status = self.signals.recv(1024).decode()
        except OSError:
            status = ""
        if not status.lstrip("-").isdigit():
            kind = SandboxFullError if status.startswith("no process") else SandboxError
            raise kind(f"the sandbox has failed: {status or 'its worker does not answer'}")
        self.exit_code = int(status)

    def _outcome(self, ending: _Ending) -> tuple[int, str]:
        message = ending.message
        if message is None:
            status = self.exit_code or 0
            return status, ending.error or describe_exit(status)
        code, failed, error = (message.get(name) for name in ("exit", "failed", "error"))
        if isinstance(failed, str):
            return 1, f"no process: {failed[:500]}"
        text = error[:1000] if isinstance(error, str) else ""
        return (code if isinstance(code, int) else 1), text


def _parse_message(received: bytearray) -> Mapping[str, Any] | None:
    end = 4 + int.from_bytes(received[:4], "big")
    if not 4 < end <= len(received):
        return None
    try:
        message = json.loads(received[4:end])
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None
