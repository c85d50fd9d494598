"""Being told to stop: SIGTERM, which a cluster sends before it takes a machine away.

Between two iterations, and while episodes are played, a run can stop at once: its weights are
those of the last iteration. An update is finished first.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class StopRequested(BaseException):
    """Raised where a run may stop at once. No error, so nobody takes it for one."""


class SigtermListener:
    """Listens to SIGTERM within a ``with`` block, if that is in the main thread."""

    def __init__(self) -> None:
        self.requested = False
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
        self.requested = True
        if self._at_once:
            self._at_once = False
            raise StopRequested

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal end this block with ``StopRequested``."""
        if self.requested:
            raise StopRequested
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False


@contextmanager
def env_vars(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables within this block; None takes one away."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
