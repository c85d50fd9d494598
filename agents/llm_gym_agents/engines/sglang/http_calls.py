"""Many calls to one server at once, answered in any order.

Each waits in a thread of its own. The threads are daemons, and hold on to nothing but this: a
server that never answers keeps neither Python from ending nor an engine from being freed.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

from llm_gym.endpoint.http_json import JsonHTTP

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
        self._threads = self._begun = 0

    def begin(self, body: Any) -> int:
        """Queue a call and return its name."""
        name = self._begun
        self._begun += 1
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
        """Want no answer to what has been begun."""
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
    http.hang_up()
