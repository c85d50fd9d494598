"""An SGLang server, started here or already running, and many HTTP calls to it at once.

Nothing here imports sglang: it lives in a process of its own. Each call waits in a daemon thread,
so a server that never answers keeps neither Python from ending nor an engine from being freed.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from typing import IO, Any

from llm_gym.core.errors import require_package
from llm_gym.evaluate.endpoint.http import HTTPError, JsonHTTP
from llm_gym.tools.sandbox.guard import guard_command
from llm_gym_agents.engines.base import EngineError

START_S = 600.0
FIND_S = 10.0
"""Seconds until a server that is said to run must answer."""
_PAUSE_S = 0.5
_REAP_S = 1.0
"""Connections break a moment before the process that held them is gone."""
_LAST_LINES = 2000


class SGLangServer:
    """Answers requests at ``url``."""

    def __init__(
        self, url: str | None, path: str, arguments: Sequence[str] = (), start_s: float = START_S
    ) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Any = None
        if url is None:
            require_package("sglang", "backend='sglang'")
            with socket.socket() as probe:  # a free port
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            url = f"http://127.0.0.1:{port}"
            self._start(path, port, arguments)
        self.http = JsonHTTP(url)
        try:
            self._wait(start_s)
        except BaseException:
            self.close()
            raise

    def _start(self, path: str, port: int, arguments: Sequence[str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        command = [sys.executable, "-m", "sglang.launch_server", "--model-path", path]
        command += ["--host", "127.0.0.1", "--port", str(port), "--skip-server-warmup"]
        command += arguments
        # In a session of its own, so that its schedulers end with it. ``guard_command`` ends all
        # of them with this process.
        self._process = subprocess.Popen(
            guard_command(command), stdout=self._log, stderr=self._log, start_new_session=True
        )
        # Without a call of ``close`` it would go on occupying a GPU.
        self._end = weakref.finalize(self, _end, self._process, self._log)

    def _wait(self, start_s: float) -> None:
        deadline = time.monotonic() + (start_s if self._process else FIND_S)
        while (silent := self._silence()) is not None:
            if (why := self.death()) is not None:
                raise EngineError(f"SGLang could not start: {why}")
            if time.monotonic() > deadline:
                raise EngineError(f"no SGLang server answers at {silent}")
            time.sleep(_PAUSE_S)

    def _silence(self) -> HTTPError | None:
        """Return why the server does not answer, or None if it does."""
        # Not /health: a server without a tokenizer never calls itself healthy.
        one = {"input_ids": [0], "sampling_params": {"max_new_tokens": 1}}
        try:
            self.http.post("/generate", one, timeout=30.0)
        except HTTPError as error:
            return error
        return None

    def death(self, patience_s: float = 0.0) -> str | None:
        """Return why the server's process has ended, or None while it lives or is not ours."""
        if self._process is None:
            return None
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return None
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LAST_LINES))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "it said nothing"
        return f"its process ended with {self._process.returncode}: {last}"

    def reason(self, error: object) -> str:
        """Return what went wrong: the end of the server, or else what was seen of it."""
        return self.death(_REAP_S) or str(error)

    def ask(self, path: str, timeout: float = 60.0, **body: Any) -> Any:
        """Send one message and return the answer; a refusal is an ``EngineError``."""
        try:
            return self.http.post(f"/{path}", body, timeout)
        except HTTPError as error:
            raise EngineError(f"SGLang failed at {path}: {self.reason(error)}") from error

    def about(self) -> dict[str, Any]:
        try:
            found = self.http.get("/server_info", 30.0)
        except HTTPError as error:
            raise EngineError(f"SGLang does not say what it serves: {error}") from error
        if not isinstance(found, dict) or type(found.get("context_length") or 0) is not int:
            raise EngineError(f"SGLang does not say what it serves, but {found!r:.100}")
        return found

    def close(self) -> None:
        """Break off what is being asked; end the server if we started it. Safe to call twice."""
        self.http.close()
        if self._process is not None:
            self._process = None
            self._end()


def _end(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    log.close()


_Call = tuple[int, Any]
CALL_S = 3600.0
"""Seconds until an answer must be there as a whole, however long the queue of the server."""


class Calls:
    """Posts to ``path``, at most ``most`` at once; further ones wait."""

    def __init__(self, http: JsonHTTP, path: str, most: int) -> None:
        self._http, self._path, self._most = http, path, most
        self._todo: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._wanted: set[int] = set()
        self._sent: set[int] = set()
        self._threads = self._started = 0

    def begin(self, body: Any) -> int:
        """Queue a call and return its name."""
        name = self._started
        self._started += 1
        self._wanted.add(name)
        self._todo.put((name, body))
        if self._threads < min(self._most, len(self._wanted)):
            self._threads += 1
            parts = (self._http, self._path, self._todo, self._answers, self._wanted, self._sent)
            threading.Thread(target=_work, args=parts, daemon=True).start()
        return name

    def take(self, timeout: float) -> _Call | None:
        """Return a call's name and its answer, or the exception that it met; None if none came."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                left = max(0.0, deadline - time.monotonic())
                name, answer = self._answers.get(timeout=left)
            except queue.Empty:
                return None
            if name in self._wanted:  # else it was dropped, and this was still on its way
                self._wanted.discard(name)
                return name, answer

    def drop(self) -> None:
        self._wanted.clear()

    @property
    def busy(self) -> int:
        """Calls that are with the server, wanted or not."""
        return len(self._sent)

    def close(self) -> None:
        """End the threads, as soon as each has its answer."""
        self.drop()
        for _ in range(self._threads):
            self._todo.put(None)


def _work(
    http: JsonHTTP,
    path: str,
    todo: queue.SimpleQueue[_Call | None],
    answers: queue.SimpleQueue[_Call],
    wanted: set[int],
    sent: set[int],
) -> None:
    while (call := todo.get()) is not None:
        name, body = call
        sent.add(name)  # before it is asked whether it is wanted, so that nothing slips past a drop
        try:
            if name in wanted:
                answers.put((name, http.post(path, body, CALL_S)))
        except Exception as error:  # noqa: BLE001 - whoever takes the answer has to know
            answers.put((name, error))
        finally:
            sent.discard(name)
