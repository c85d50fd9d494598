"""``Sandbox``: runs untrusted Python code, such as code that a model wrote.

``docs/tools.md`` says what it protects against and what not.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import math
import os
import platform
import sys
import threading
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any

from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import check_range
from llm_gym.tools.definition import check_timeout
from llm_gym.tools.sandbox.process import (
    SandboxError,
    SandboxFullError,
    SandboxProcess,
    SandboxResult,
)
from llm_gym.tools.sandbox.worker import SandboxWorker

ISOLATED = ("namespaces", "landlock")
ISOLATIONS = ("auto", *ISOLATED, "none")
MAX_CODE_CHARS = 1_000_000
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS}
_MB = 1 << 20


class Sandbox(contextlib.AbstractContextManager["Sandbox"]):
    r"""Runs Python code in isolation.

    The worker starts with the first call and is kept warm. Calls may come from many threads at
    once. ``close`` it, or use it in a ``with``.

    Args:
        isolation: ``auto`` takes ``namespaces``, or else ``landlock``, and raises if the machine
            allows neither. ``none`` runs the code with your own rights: only for trusted code.
        timeout: Maximum seconds of a call.
        memory_mb: Memory of a call, the interpreter included.
        disk_mb: Size of the folder that the code may write to.
        files: Files in that folder, and descriptors open at once.
        tasks: Threads at once.
        output_chars: Characters kept of each of stdout and stderr.
        read: More paths that the code may read and import from. If you are root, they must be
            readable by everybody, because the code does not run as root.
        preload: Modules imported once, before the first call.

    >>> with Sandbox(isolation="none") as sandbox:
    ...     sandbox.run("print(6 * 7)").stdout
    '42\n'
    """

    def __init__(
        self,
        *,
        isolation: str = "auto",
        timeout: float = 5.0,
        memory_mb: int = 512,
        disk_mb: int = 16,
        files: int = 128,
        tasks: int = 32,
        output_chars: int = 20_000,
        read: Sequence[str] = (),
        preload: Sequence[str] = (),
    ) -> None:
        self._worker: SandboxWorker | None = None
        self._lock = threading.Lock()
        if isolation not in ISOLATIONS:
            raise ConfigError(
                f"isolation must be one of {', '.join(ISOLATIONS)}, got {isolation!r}"
            )
        check_timeout(timeout)
        check_range("memory_mb", memory_mb, 64)
        check_range("disk_mb", disk_mb, 1)
        check_range("files", files, 16)
        check_range("tasks", tasks, 1)
        check_range("output_chars", output_chars, 1)
        self.isolation, self.timeout, self.output_chars = isolation, timeout, output_chars
        self.read, self.preload = tuple(read), tuple(preload)
        self._limits = {
            "memory_bytes": memory_mb * _MB,
            "disk_bytes": disk_mb * _MB,
            "files": files,
            "tasks": tasks,
        }

    def run(self, code: str, timeout: float | None = None) -> SandboxResult:
        """Run ``code`` in a new process, which leaves nothing behind."""
        seconds = check_timeout(timeout) or self.timeout
        if problem := _code_problem(code):
            return problem
        process = self._fork(once=True, cpu_seconds=math.ceil(seconds) + 1)
        try:
            return process.run(code, seconds)
        except SandboxFullError:
            raise  # a refused call does not affect the others
        except SandboxError:
            self.close()  # do not reuse a worker that has failed
            raise
        finally:
            process.close()

    def session(self) -> SandboxSession:
        """Return a process that keeps its variables from run to run."""
        return SandboxSession(self)

    @property
    def mechanism(self) -> str:
        """The isolation in use. Starts the worker if needed."""
        return self._started().isolation

    @property
    def landlock(self) -> int:
        """Version of Landlock in use, 0 for none."""
        worker = self._started()
        return 0 if worker.isolation == "none" else worker.landlock

    def close(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fork(self, once: bool, cpu_seconds: int) -> SandboxProcess:
        request = {"once": once, "limits": {**self._limits, "cpu_seconds": cpu_seconds}}
        try:
            return SandboxProcess(self._started().requests, request, self.output_chars)
        except OSError as error:
            if error.errno in _NO_ROOM:  # running processes continue
                raise SandboxFullError(
                    f"no descriptor is left for one more call ({error.strerror}): a session holds "
                    "four; close some, or raise the limit (ulimit -n)"
                ) from error
            self.close()  # something outside killed the worker: try once more
            return SandboxProcess(self._started().requests, request, self.output_chars)

    def _started(self) -> SandboxWorker:
        with self._lock:
            if self._worker is None:
                self._worker = self._start()
                weakref.finalize(self, self._worker.close)
            return self._worker

    def _start(self) -> SandboxWorker:
        if sys.platform != "linux":
            raise SandboxError(f"the sandbox needs Linux, this is {sys.platform}")
        if self.isolation == "none":
            return SandboxWorker("none", self.read, self.preload)
        if platform.machine() not in ("x86_64", "aarch64"):
            raise SandboxError(f"the sandbox knows x86-64 and aarch64, not {platform.machine()}")
        reasons = []
        for isolation in ISOLATED if self.isolation == "auto" else (self.isolation,):
            try:
                worker = SandboxWorker(isolation, self.read, self.preload)
                self._try_out(worker)
            except SandboxError as error:
                reasons.append(f"{isolation}: {error}")
            else:
                return worker
        raise SandboxError(
            f"the code cannot be isolated on this machine ({'; '.join(reasons)}). Allow "
            'unprivileged user namespaces, or say isolation="none" to run it with your rights'
        )

    def _try_out(self, worker: SandboxWorker) -> None:
        request = {"once": True, "limits": {**self._limits, "cpu_seconds": 10}}
        process = SandboxProcess(worker.requests, request, self.output_chars)
        try:
            result = process.run("print(1)", 10.0)
            if result.stdout != "1\n":
                raise SandboxError(result.error or "the trial gave no output")
        except SandboxError:
            worker.close()
            raise
        finally:
            process.close()


class SandboxSession(contextlib.AbstractContextManager["SandboxSession"]):
    """A process that keeps its variables between runs; made by ``Sandbox.session``.

    If a run takes too long or dies, the variables are lost, and the next run starts a new process.
    Between runs the process is stopped: its threads do nothing.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._process: SandboxProcess | None = None
        self.restarts = 0
        """How often the variables were lost."""

    def run(self, code: str, timeout: float | None = None) -> SandboxResult:
        """Run ``code`` with the variables of earlier runs."""
        seconds = check_timeout(timeout) or self._sandbox.timeout
        if problem := _code_problem(code):
            return problem
        if self._process is None:
            self._process = self._sandbox._fork(once=False, cpu_seconds=0)
        process = self._process
        process.signal(b"c")
        try:
            result = process.run(code, seconds)
        except BaseException:
            self.close()
            raise
        if process.exit_code is None:
            process.signal(b"s")
        else:
            self.close()
            self.restarts += 1
        return result

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(SandboxError):
                process.kill()
            process.close()

    def __del__(self) -> None:
        self.close()

    def __exit__(self, *_: object) -> None:
        self.close()


@cache
def _shared(process: int, settings: tuple[tuple[str, Any], ...]) -> Sandbox:
    sandbox = Sandbox(**dict(settings))
    atexit.register(sandbox.close)
    return sandbox


def shared(**settings: Any) -> Sandbox:
    """Return the sandbox with these settings that this process shares.

    It closes when the process ends.
    """
    # A forked process does not own the workers of its parent.
    return _shared(os.getpid(), tuple(sorted(settings.items())))


def _code_problem(code: Any) -> SandboxResult | None:
    problem = ""
    if not isinstance(code, str):
        problem = f"code must be text, got {type(code).__name__}"
    elif len(code) > MAX_CODE_CHARS:
        problem = f"code has at most {MAX_CODE_CHARS} characters"
    return SandboxResult(ok=False, exit_code=1, error=problem) if problem else None
