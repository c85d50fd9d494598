"""This side of the process that SQL runs in: started when first needed, kept warm, replaced.

It holds nothing that is not here as well, so its end costs nobody more than the query it died of:
the next one starts another and makes its database again.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

_WALL_S = 60.0  # far beyond what the limit on processor time lets it take
_INSIDE = Path(__file__).with_name("sql_inside.py")


class SqlProcess:
    """A process that answers queries, one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._known: set[str] = set()
        self.starts = 0
        """How often the process was started."""

    def ask(self, request: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
        """Return the answer; ``source`` says how to make the database where it is not yet known.

        A query that the process dies of is answered with the error that ended it.
        """
        with self._lock:
            if request["key"] in self._known:
                answer = self._exchange(request)
                if not answer.get("unknown"):
                    return answer
            answer = self._exchange({**request, **source})
            if self._process is not None:
                self._known.add(request["key"])
            return answer

    def forget(self, key: str) -> None:
        """Close a database in the process, if it is open there."""
        with self._lock:
            if key in self._known and self._process is not None:
                self._known.discard(key)
                self._exchange({"key": key})

    def close(self) -> None:
        """End the process; a later question starts another."""
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self.starts += 1
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(_INSIDE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"TZ": "UTC", "PATH": os.defpath},
                cwd="/",
            )
        return self._process

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        data = json.dumps(request).encode()
        try:
            process.stdin.write(struct.pack(">I", len(data)) + data)
            process.stdin.flush()
            # The first byte is what is waited for; what follows is written in one go.
            if not select.select([process.stdout], [], [], _WALL_S)[0]:
                raise TimeoutError
            head = process.stdout.read(4)
            body = process.stdout.read(struct.unpack(">I", head)[0])
            answer: dict[str, Any] = json.loads(body)
        except (OSError, struct.error, ValueError, TimeoutError):
            return {"error": _why(self._end())}
        except BaseException:  # an interrupt: half an exchange is nobody's answer
            self._end()
            raise
        return answer

    def _end(self) -> int:
        """End the process and return how it ended."""
        process, self._process = self._process, None
        self._known.clear()
        if process is None:
            return 0
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        try:
            return process.wait(0.2)  # what is dying says of what; what only waited ends by itself
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _why(status: int) -> str:
    return "interrupted" if status in (-signal.SIGPROF, -signal.SIGKILL) else "out of memory"


@cache
def _of_process(process: int) -> SqlProcess:
    found = SqlProcess()
    atexit.register(found.close)
    return found


def sql_process() -> SqlProcess:
    """Return the one that everything in this process shares; a fork gets one of its own."""
    return _of_process(os.getpid())
