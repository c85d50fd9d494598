"""One environment at the other end, with all that is needed to begin it again.

A server may forget a session: it was restarted, or the session was idle for too long. An episode
follows from its seed and the actions so far, so they are kept, from the last reset with a seed on,
and played again in another session. What comes out must be what was seen before; if it is not, the
server plays something else now, and that is an error.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

from llm_gym.core import splits
from llm_gym.errors import ConfigError, RecordError, RemoteError
from llm_gym.remote import wire
from llm_gym.remote.connection import Connection, Row

MOST_REMEMBERED = 20_000
"""Operations since the last seed; a session that has played more cannot begin again elsewhere."""
_SEED_BITS = 62
Ask = tuple["RemoteSession", str, Any]
"""A session, an operation of ``wire``, and its argument."""


class RemoteSession:
    """One row. ``play`` is what moves it."""

    def __init__(self) -> None:
        self.number = 0
        self.name = secrets.token_urlsafe(16)
        self.history: list[tuple[str, Any]] | None = []
        self.seen = ""
        """A digest of every observation since the last seed."""

    def row(self, operation: str, argument: Any) -> Row:
        """Return the next row to send."""
        return self.name, self.number + 1, operation, argument

    def take(self, operation: str, argument: Any, answer: Any) -> None:
        """Note that an operation was played."""
        self.number += 1
        if operation == wire.RESET and argument[0] is not None:
            self.history, self.seen = [], ""
        self.seen = _seen(self.seen, operation, answer)
        moves = operation != wire.CALL or argument == "random_action"  # which draws a number
        if self.history is not None and operation != wire.CLOSE and moves:
            self.history.append((operation, argument))
            if len(self.history) > MOST_REMEMBERED:
                self.history = None

    def again(self, operation: str, argument: Any) -> list[Row]:
        """Return the rows that bring another session to where this one was, and one step on."""
        self.name, self.number = secrets.token_urlsafe(16), 0
        if operation == wire.RESET and argument[0] is not None:
            past: Sequence[tuple[str, Any]] = []
        elif self.history is None:
            raise RemoteError(
                "the server has lost the session, and its beginning is too long ago to play it "
                "again; reset with a seed"
            )
        else:
            past = self.history
        rows = [*past, (operation, argument)]
        return [(self.name, at + 1, *row) for at, row in enumerate(rows)]

    def saved(self) -> bytes:
        """Return what ``restore`` needs: a seed and actions, and no code."""
        if self.history is None:
            raise ConfigError("a snapshot needs an episode that began with a seed not long ago")
        state = {"history": self.history, "seen": self.seen}
        return json.dumps(state).encode("ascii")

    def restore(self, saved: bytes) -> None:
        """Go back to what was saved; the next operation plays it again in another session."""
        try:
            state = json.loads(saved)
            self.history = [(str(operation), argument) for operation, argument in state["history"]]
            self.seen = str(state["seen"])
        except (ValueError, TypeError, KeyError) as error:
            raise RecordError(f"this is no snapshot of a remote episode: {error}") from error
        self.name, self.number = secrets.token_urlsafe(16), 0


def any_seed() -> int:
    """Return a seed for whoever did not care, so that the episode can be begun again."""
    return secrets.randbits(_SEED_BITS)


def play(connection: Connection, asks: Sequence[Ask]) -> list[Any]:
    """Do one operation in each of some sessions, in one request.

    Sessions that the server has lost are begun again, in a second one. An answer is as in
    ``wire``, an error included.
    """
    answers = connection.run([session.row(*rest) for session, *rest in asks])
    lost = [
        at for at, answer in enumerate(answers) if _is_lost(answer) and asks[at][1] != wire.CLOSE
    ]
    if lost:
        for at, answer in zip(
            lost, _play_again(connection, [asks[at] for at in lost]), strict=True
        ):
            answers[at] = answer
    for (session, operation, argument), answer in zip(asks, answers, strict=True):
        if not (isinstance(answer, dict) and answer["error"] in wire.NOT_PLAYED):
            session.take(operation, argument, answer)
    return answers


def _seen(before: str, operation: str, answer: Any) -> str:
    """Return the digest of what has been seen and one answer more."""
    if operation == wire.CALL or not isinstance(answer, list) or not answer:
        return before
    return splits.digest(f"{before} {answer[0]!a}")  # a lone surrogate cannot be encoded


def _is_lost(answer: Any) -> bool:
    return isinstance(answer, dict) and answer["error"] == wire.LOST


def _play_again(connection: Connection, asks: Sequence[Ask]) -> list[Any]:
    lines = [session.again(*rest) for session, *rest in asks]
    told = iter(connection.run([row for line in lines for row in line]))
    last = []
    for (session, *_), line in zip(asks, lines, strict=True):
        answers = [next(told) for _ in line]
        _check_same(session, line[:-1], answers)
        session.number = len(line) - 1
        last.append(answers[-1])
    return last


def _check_same(session: RemoteSession, past: Sequence[Row], answers: Sequence[Any]) -> None:
    seen = ""
    for row, answer in zip(past, answers, strict=False):
        seen = _seen(seen, row[2], answer)
    if past and seen != session.seen:
        raise RemoteError(
            "the server has lost the session and plays it another way now: is it another version, "
            "or another environment? Reset to go on"
        )


def refusal(answer: dict[str, str]) -> Exception:
    """Return the exception for an answer that is an error."""
    kind, message = answer["error"], answer["message"]
    if kind == wire.REFUSED:
        return ConfigError(message)
    return RemoteError(f"the server says: {message}")
