"""Waiting for a process that may be dead, or may never answer.

vLLM waits for its process without end, and without looking whether it is still there. Here
``look`` is called every second of such a wait with the time that it began, and ends it by raising.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any

Look = Callable[[float], None]
LOOK_EVERY_S = 1.0


def watch(answers: queue.Queue[Any], look: Look) -> None:
    """Have ``answers`` look around while somebody waits for an answer.

    The wait stays in the thread of whoever waits: an interrupt ends it and takes nothing away.
    """
    take = answers.get

    def get() -> Any:
        start = time.monotonic()
        while True:
            try:
                return take(timeout=LOOK_EVERY_S)
            except queue.Empty:
                look(start)

    answers.get = get  # type: ignore[assignment]


def call(work: Callable[[], Any], look: Look) -> Any:
    """Return what ``work`` returns.

    It runs in a thread that nobody waits for at the end of Python, since it may never return.
    """
    start, answer = time.monotonic(), Future[Any]()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again below
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    while True:
        try:
            return answer.result(LOOK_EVERY_S)
        except NotYet:
            if answer.done():  # it raised one itself
                raise
            look(start)
