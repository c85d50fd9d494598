"""Actors without processes: the same calls, done at once in this thread, so breakpoints work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Done:
    """A call that was made: what it returned, or raised."""

    def __init__(self, call: Callable[..., Any], args: Sequence[Any]) -> None:
        self.error: Exception | None = None
        try:
            self.value = call(*args)
        except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
            self.error = error

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class InProcess:
    """A cluster of one process."""

    def start(self, make: Callable[..., Any], argument: Any, name: str) -> Any:
        """Return an actor."""
        return make(argument)

    def put(self, value: Any) -> Any:
        """Return what stands for ``value`` in a call."""
        return value

    def call(self, actor: Any, method: str, *args: Any) -> Any:
        """Have an actor do something; the result is asked for with ``result``."""
        return Done(getattr(actor, method), args)

    def ready(self, calls: Sequence[Any], timeout: float | None) -> list[Any]:
        """Return the calls that are done, waiting for one of them."""
        return list(calls)

    def result(self, call: Any) -> Any:
        """Return what a call returned, or raise what it raised."""
        return call.result()

    def kill(self, actor: Any) -> None:
        """End an actor without asking it."""
        actor.close()

    def last_words(self, actor: Any, pid: int) -> str:
        """Return the last lines that an actor wrote."""
        return ""

    def address(self) -> str:
        """Return where this process can be reached."""
        return "localhost"

    def close(self) -> None:
        """End the cluster."""
