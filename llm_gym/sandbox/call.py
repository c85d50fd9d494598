"""A cell, seen from outside: send code in, read what comes out, and end it for certain.

What arrives from a cell is untrusted: lengths are bounded, bytes that are not text are replaced,
and a last word that is not as it should be counts for nothing.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import socket
import struct

# The wall clock makes episodes differ, which is why lint bans it; a time limit has to read it.
import time  # noqa: TID251
from collections.abc import Mapping
from typing import Any, NamedTuple

from llm_gym.sandbox.result import NoCellError, Result, SandboxError, cause_of_death

_CHUNK = 65536
_LAST_WORD_BYTES = 16384
_FLOOD = 64  # times the output that is kept, before the cell is ended for it
_LONGEST_WAIT = 1_000_000  # milliseconds that poll can be told at once
_GRACE = 5.0  # seconds for a killed process to be gone; more means that the worker is stuck


class _Stream:
    """A pipe out of the cell: its beginning is kept, the rest read and dropped."""

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
    def flooded(self) -> bool:
        return self.total > _FLOOD * self.keep

    def drain(self) -> None:
        while not self.flooded and self.read():
            pass

    def text(self, limit: int) -> tuple[str, bool]:
        """Return the text and whether some of it was left out."""
        text = self.kept.decode("utf-8", "replace")
        return text[:limit], self.total > len(self.kept) or len(text) > limit


class Ending(NamedTuple):
    """How a call ended: the cell's last word, or the reason why there is none."""

    word: Mapping[str, Any] | None = None
    error: str = ""
    timed_out: bool = False


class Cell:
    """One process behind the walls.

    Args:
        door: Socket to the worker.
        order: What kind of cell: its limits, and whether it runs ``once`` or again and again.
        output_chars: Characters kept of each stream.
    """

    def __init__(self, door: socket.socket, order: Mapping[str, Any], output_chars: int) -> None:
        self.once: bool = order["once"]
        self.output_chars = output_chars
        self.exit_code: int | None = None
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as inside:
            streams = []
            for _ in range(2):
                streams.append(_Stream(output_chars))
                undo.callback(os.close, streams[-1].descriptor)
                inside.callback(os.close, streams[-1].inner)
            self.out, self.err = streams
            self.control, control = map(undo.enter_context, socket.socketpair())
            kind = socket.SOCK_SEQPACKET
            self.leash, leash = map(undo.enter_context, socket.socketpair(socket.AF_UNIX, kind))
            inner = [control.fileno(), leash.fileno(), self.out.inner, self.err.inner]
            socket.send_fds(door, [json.dumps(order).encode()], inner)
            undo.pop_all()
            control.close()
            leash.close()

    def run(self, code: str, timeout: float) -> Result:
        """Run ``code``; it ends after ``timeout`` seconds at the latest."""
        start = time.monotonic()
        self.out.begin()
        self.err.begin()
        ending = self._converse(code, timeout, start + timeout)
        if ending.word is None and self.exit_code is None:
            self.kill()
        self.out.drain()
        self.err.drain()
        stdout, cut_out = self.out.text(self.output_chars)
        stderr, cut_err = self.err.text(self.output_chars)
        status, error = self._verdict(ending)
        return Result(
            stdout=stdout,
            stderr=stderr,
            ok=not error and status == 0,
            error=error,
            exit_code=status,
            timed_out=ending.timed_out,
            truncated=cut_out or cut_err,
            seconds=time.monotonic() - start,
        )

    def signal(self, letter: bytes) -> None:
        """Have the worker send a signal: ``k`` kill, ``s`` stop, ``c`` continue."""
        with contextlib.suppress(OSError):
            self.leash.send(letter)

    def kill(self) -> None:
        """End the cell with everything in it, and wait until it is gone."""
        if self.exit_code is None:
            self.signal(b"k")
            self.leash.settimeout(_GRACE)
            self._hear_leash()

    def close(self) -> None:
        """Let go; a cell that is still alive is ended."""
        self.signal(b"k")
        for end in (self.control, self.leash):
            end.close()
        for stream in (self.out, self.err):
            os.close(stream.descriptor)

    def _converse(self, code: str, timeout: float, deadline: float) -> Ending:
        """Send the code and listen until the cell has spoken or ended, or time is up."""
        late = Ending(error=f"took longer than {timeout:g} s", timed_out=True)
        if not self._say(code, deadline):
            return late
        heard = bytearray()
        readers = {
            self.control.fileno(): lambda: self._hear(heard),
            self.out.descriptor: self.out.read,
            self.err.descriptor: self.err.read,
        }
        watch = select.poll()
        for end in (self.leash.fileno(), *readers):
            watch.register(end, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in watch.poll(min(math.ceil(1000 * left), _LONGEST_WAIT)):
                if descriptor not in readers:
                    self._hear_leash()
                    self._hear(heard)
                    return Ending(_word(heard))
                if not readers[descriptor]():
                    watch.unregister(descriptor)
            if self.out.flooded or self.err.flooded:
                return Ending(error="wrote far too much output")
            if not self.once and (word := _word(heard)):
                return Ending(word)
        return late

    def _say(self, code: str, deadline: float) -> bool:
        """Send the code; return False if the cell does not take it in time."""
        body = json.dumps({"code": code}).encode()
        self.control.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            self.control.sendall(struct.pack(">I", len(body)) + body)
        except TimeoutError:
            return False
        except OSError:
            pass  # it has ended; the leash will tell how
        self.control.setblocking(False)
        return True

    def _hear(self, heard: bytearray) -> bool:
        """Add to what was heard; return whether there may be more worth hearing."""
        try:
            part = self.control.recv(_LAST_WORD_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        heard += part
        return bool(part) and len(heard) <= _LAST_WORD_BYTES

    def _hear_leash(self) -> None:
        """Take the exit status from the worker."""
        try:
            status = self.leash.recv(1024).decode()
        except OSError:
            status = ""
        if not status.lstrip("-").isdigit():
            kind = NoCellError if status.startswith("no cell") else SandboxError
            raise kind(f"the sandbox has failed: {status or 'its worker does not answer'}")
        self.exit_code = int(status)

    def _verdict(self, ending: Ending) -> tuple[int, str]:
        """Return the exit status and the error."""
        word = ending.word
        if word is None:
            status = self.exit_code or 0
            return status, ending.error or cause_of_death(status)
        if "failed" in word:
            return 1, f"no cell: {_plain(word['failed'])[:500]}"
        told, error = word.get("exit"), word.get("error")
        return (told if isinstance(told, int) else 1), _plain(error or "")[:1000]


def _plain(said: Any) -> str:
    """Return text that can be written anywhere: JSON may bring halves of characters."""
    try:
        return str(said).encode("utf-8", "replace").decode()
    except (RecursionError, ValueError):
        return type(said).__name__


def _word(heard: bytearray) -> Mapping[str, Any] | None:
    """Return the cell's last word, if it is complete and makes sense."""
    end = 4 + int.from_bytes(heard[:4], "big")
    if not 4 < end <= len(heard):
        return None
    try:
        word = json.loads(heard[4:end])
    except (ValueError, RecursionError):
        return None
    return word if isinstance(word, dict) else None
