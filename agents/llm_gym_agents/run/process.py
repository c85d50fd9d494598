"""The process of a run: SIGTERM and environment variables.

A cluster sends SIGTERM before it takes a machine away. A run stops at once between two iterations
and during play, when its weights are those of the last iteration; an update is finished first.
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


@contextmanager
def env_vars(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables within this block; None removes one."""
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
