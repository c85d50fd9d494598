"""``SigtermListener``: ends a run between two iterations, or during play.

A cluster sends SIGTERM before it takes a machine away. A run stops at once between two iterations
and during play, when its weights are those of the last iteration; an update is finished first.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class StopRequested(BaseException):
    """Raised where a run may stop at once. Not an ``Exception``: no handler may swallow it."""


class SigtermListener:
    """Listens to SIGTERM within a ``with`` block, if that runs in the main thread."""

    def __init__(self) -> None:
        self.requested = False
        """Whether SIGTERM has come."""
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
        self.requested = True
        if self._at_once:
            self._at_once = False
            raise StopRequested

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise ``StopRequested`` inside this block when SIGTERM comes."""
        if self.requested:
            raise StopRequested
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False
