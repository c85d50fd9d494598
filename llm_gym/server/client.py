"""Sends rows of ``protocol`` to a server, retries, and restores lost sessions.

A server forgets a session when it restarts or when the session was idle for too long. The client
keeps the last seed and the actions since, replays them in a new session, and checks that every
observation is the same as before.
"""

import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from llm_gym.core import splits
from llm_gym.core.errors import ConfigError, RecordError, RemoteError
from llm_gym.core.spaces import AnyText
from llm_gym.evaluate.endpoint.http import Backoff, HTTPError, JsonHTTP, Key, is_transient, jitter
from llm_gym.server import protocol

_MAX_LENGTH = 1 << 30
_MAX_TEXT = 1 << 20
_ROW_BYTES = 256  # of a row beside its text
Row = tuple[str, int, str, Any]


class About(NamedTuple):
    """What a server says about its environment."""

    env_id: str
    observation_space: AnyText
    action_space: AnyText
    system_prompt: str
    has_splits: bool
    players: tuple[str, ...]
    rows: int
    """Rows that a request may have."""
    body_bytes: int
    """Bytes that a request may have."""


class Connection:
    """A server of environments.

    Args:
        url: Where it is.
        token_env: The environment variable that holds its token, if it wants one.
        timeout: Seconds until an answer must be there.
        tries: Requests for an answer before giving up.
    """

    def __init__(
        self,
        url: str,
        token_env: str = protocol.TOKEN_VARIABLE,
        timeout: float = 60.0,
        tries: int = 5,
    ) -> None:
        if not timeout > 0:
            raise ConfigError(f"timeout must be above 0, got {timeout}")
        secret = os.environ.get(token_env, "").strip()
        key = Key(secret, token_env) if secret else None
        self._http = JsonHTTP(url, key.headers if key else None, key.hide if key else None)
        self._token_env = token_env
        self._timeout, self._backoff = timeout, Backoff(tries, first_s=0.1, longest_s=5.0)
        try:
            self.about = self._ask_about()
        except BaseException:
            self.close()
            raise

    def run(self, rows: Sequence[Row]) -> list[Any]:
        """Return the answer to each row; what is sent twice is played once."""
        answers: list[Any] = []
        for part in _parts(rows, self.about.rows, self.about.body_bytes):
            told = self._try(partial(self._http.post, protocol.ROWS, {"rows": part}, self._timeout))
            answers += _checked(told, len(part), self._http.url)
        return answers

    def close(self) -> None:
        self._http.close()

    def _ask_about(self) -> About:
        told = self._try(lambda: self._http.get(protocol.ABOUT, self._timeout))
        try:
            return _read_about(told)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise RemoteError(
                f"{self._http.url} does not speak as llm-gym serve does: {error!s:.200}"
            ) from error

    def _try(self, ask: Callable[[], Any]) -> Any:
        failures = 0
        while True:
            try:
                return ask()
            except HTTPError as error:
                failures += 1
                if failures >= self._backoff.tries or not is_transient(error):
                    raise RemoteError(self._said(error)) from None
                wait = self._backoff.wait(failures, jitter(failures))
            threading.Event().wait(wait)

    def _said(self, error: HTTPError) -> str:
        url = self._http.url
        if error.status is None:
            return f"no server answers ({error}); does llm-gym serve run at {url}?"
        if error.status == 401:
            return f"{url} wants its token: put what it was started with into {self._token_env}"
        try:
            told = str(json.loads(error.body)["error"])
        except (ValueError, TypeError, KeyError):
            return str(error)
        return f"{url} refuses it: {told:.500}"


def _parts(rows: Sequence[Row], most: int, most_bytes: int) -> Iterator[list[Row]]:
    """Yield the rows in requests that are not too large."""
    part: list[Row] = []
    size = 0
    for row in rows:
        # A character is at most twelve bytes in JSON: two escapes of a surrogate pair.
        argument = row[3]
        text = argument if isinstance(argument, str) else str(argument)
        length = _ROW_BYTES + (
            len(text) if text.isascii() and text.isprintable() else 12 * len(text)
        )
        if part and (len(part) >= most or size + length > most_bytes):
            yield part
            part, size = [], 0
        part.append(row)
        size += length
    if part:
        yield part


def _checked(told: Any, count: int, url: str) -> list[Any]:
    answers = told.get("rows") if isinstance(told, dict) else None
    if isinstance(answers, list) and len(answers) == count and all(map(_is_answer, answers)):
        return answers
    raise RemoteError(f"{url} answered with something else than {count} rows")


def _is_answer(answer: Any) -> bool:
    if isinstance(answer, list):
        return True
    known = isinstance(answer, dict) and answer.get("error") in protocol.ERRORS
    return known and isinstance(answer.get("message"), str)


def _read_about(told: Any) -> About:
    if told["protocol"] != protocol.PROTOCOL:
        raise ValueError(f"its protocol is {told['protocol']!r}, ours {protocol.PROTOCOL}")
    limits = told["limits"]
    return About(
        _text(told["env_id"]),
        _space(told["observation"]),
        _space(told["action"]),
        _text(told["system_prompt"]),
        told["has_splits"] is True,
        tuple(_text(player) for player in told["players"][:10]),
        _whole(limits["rows"]),
        _whole(limits["body_bytes"]),
    )


def _space(told: Mapping[str, Any]) -> AnyText:
    return AnyText(
        _whole(told["max_length"]), examples=[_text(one) for one in told["examples"][:100]]
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise TypeError(f"expected some text, got {value!r:.100}")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 < value <= _MAX_LENGTH:
        raise TypeError(f"expected a whole number above 0, got {value!r:.100}")
    return value


MOST_REMEMBERED = 20_000
"""Operations since the last seed; a session that has played more cannot begin again elsewhere."""
_SEED_BITS = 62


class RemoteSession:
    """One row. ``play`` is what moves it."""

    def __init__(self) -> None:
        self.number = 0
        self.name = secrets.token_urlsafe(16)
        self.history: list[tuple[str, Any]] | None = []
        self.seen = ""
        """A digest of every observation since the last seed."""

    def row(self, operation: str, argument: Any) -> Row:
        # A new session with a past is no session yet: its server must ask for all of it.
        number = 2 if self.history and not self.number else self.number + 1
        return self.name, number, operation, argument

    def leave(self) -> None:
        """Go on in a new session, into which the next operation replays the history."""
        self.name, self.number = secrets.token_urlsafe(16), 0

    def take(self, operation: str, argument: Any, answer: Any) -> None:
        self.number += 1
        if operation == protocol.RESET and argument[0] is not None:
            self.history, self.seen = [], ""
        self.seen = _seen(self.seen, operation, answer)
        moves = operation != protocol.CALL or argument == "random_action"  # which draws a number
        if self.history is not None and operation != protocol.CLOSE and moves:
            self.history.append((operation, argument))
            if len(self.history) > MOST_REMEMBERED:
                self.history = None

    def again(self, operation: str, argument: Any) -> list[Row]:
        """Return the rows that replay this session under a new name, then the operation."""
        self.leave()
        if operation == protocol.RESET and argument[0] is not None:
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
        """Return the seed and the actions as JSON, for ``restore``."""
        if self.history is None:
            raise ConfigError("a snapshot needs an episode that began with a seed not long ago")
        state = {"history": self.history, "seen": self.seen}
        return json.dumps(state).encode("ascii")

    def restore(self, saved: bytes) -> None:
        """Load a saved history; the next operation replays it in a new session."""
        try:
            state = json.loads(saved)
            self.history = [(str(operation), argument) for operation, argument in state["history"]]
            self.seen = str(state["seen"])
        except (ValueError, TypeError, KeyError) as error:
            raise RecordError(f"this is no snapshot of a remote episode: {error}") from error
        self.leave()


def any_seed() -> int:
    """Return a random seed, so that an episode reset without one can be replayed."""
    return secrets.randbits(_SEED_BITS)


def play(connection: Connection, session: RemoteSession, operation: str, argument: Any) -> Any:
    """Do one operation in a session and return its answer as in ``protocol``, an error included.

    A session that the server has lost is begun again, in a second request.
    """
    try:
        (answer,) = connection.run([session.row(operation, argument)])
        if _is_lost(answer) and operation != protocol.CLOSE:
            answer = _play_again(connection, session, operation, argument)
    except RemoteError:
        session.leave()  # nobody knows whether the server has played it
        raise
    if not (isinstance(answer, dict) and answer["error"] in protocol.NOT_PLAYED):
        session.take(operation, argument, answer)
    return answer


def _seen(before: str, operation: str, answer: Any) -> str:
    """Return the digest of what has been seen and one answer more."""
    if operation == protocol.CALL or not isinstance(answer, list) or not answer:
        return before
    return splits.digest(f"{before} {answer[0]!a}")  # a lone surrogate cannot be encoded


def _is_lost(answer: Any) -> bool:
    return isinstance(answer, dict) and answer["error"] == protocol.LOST


def _play_again(
    connection: Connection, session: RemoteSession, operation: str, argument: Any
) -> Any:
    rows = session.again(operation, argument)
    answers, seen = connection.run(rows), ""
    for row, answer in zip(rows[:-1], answers, strict=False):
        seen = _seen(seen, row[2], answer)
    if rows[1:] and seen != session.seen:
        raise RemoteError(
            "the server has lost the session and plays it another way now: is it another version, "
            "or another environment? Reset to go on"
        )
    session.number = len(rows) - 1
    return answers[-1]


def refusal(answer: dict[str, str]) -> Exception:
    """Return the exception for an answer that is an error."""
    kind, message = answer["error"], answer["message"]
    if kind == protocol.REFUSED:
        return ConfigError(message)
    return RemoteError(f"the server says: {message}")
