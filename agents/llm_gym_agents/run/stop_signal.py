"""Being told to stop: SIGTERM, which a cluster sends before it takes a machine away.

Between two iterations, and while episodes are played, a run can stop at once: its weights are
those of the last iteration. An update is finished first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class Stopped(BaseException):
    """Raised where a run may stop at once. No error, so nobody takes it for one."""


class StopSignal:
    """Listens to SIGTERM within a ``with`` block, if that is in the main thread."""

    def __init__(self) -> None:
        self.asked = False
        """Whether somebody asked for an end."""
        self._at_once = False
        self._usual: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._usual = signal.signal(signal.SIGTERM, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._usual is not None:
            signal.signal(signal.SIGTERM, self._usual)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self._at_once:
            self._at_once = False
            raise Stopped

    @contextmanager
    def may_stop_at_once(self) -> Iterator[None]:
        """Let a signal end this block with ``Stopped``."""
        if self.asked:
            raise Stopped
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False
