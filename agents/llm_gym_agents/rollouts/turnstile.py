"""``Turnstile``: new weights for an engine that is playing, between two replies.

One thread plays, another brings weights. Whoever plays looks at ``wanted`` before it asks for
replies; if somebody waits it asks for none, lets those that are running finish, and then lets the
other in (``let_in``). So every reply is sampled by one version of the weights, which its
``Completion`` names, and an episode may change versions from one turn to the next.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turnstile:
    """Lets one visitor at a time to an engine while nothing is running on it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._playing = self._open = False
        self._waiting = self._inside = False

    @property
    def wanted(self) -> bool:
        """Whether somebody waits to be let in."""
        return self._waiting

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Play within this block; a visitor that is inside is waited for."""
        with self._changed:
            self._changed.wait_for(lambda: not self._inside and not self._waiting)
            self._playing = True
        try:
            yield
        finally:
            with self._changed:
                self._playing = False
                self._changed.notify_all()

    def let_in(self) -> None:
        """Let the one who waits in, and wait until it has left. Nothing may be running."""
        with self._changed:
            self._open = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._inside and not self._waiting)
            self._open = False

    def enter(self) -> None:
        """Wait until nothing is running, and keep it so until ``leave``. Safe to call twice."""
        with self._changed:
            if self._inside:
                return
            self._waiting = True
            self._changed.wait_for(lambda: not self._playing or self._open)
            self._waiting, self._inside = False, True

    def leave(self) -> None:
        """Let the play go on. Safe to call twice."""
        with self._changed:
            self._inside = False
            self._changed.notify_all()
