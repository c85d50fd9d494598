"""Speaks ``wire`` to one server: sends again what was lost, and believes nothing it is told."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from llm_gym.core.spaces import AnyText
from llm_gym.endpoint.http_json import HTTPError, JsonHTTP
from llm_gym.endpoint.key import Key
from llm_gym.endpoint.retry import Backoff, jitter, passes
from llm_gym.errors import ConfigError, RemoteError
from llm_gym.remote import wire

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
        token_env: str = wire.TOKEN_VARIABLE,
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
            told = self._try(partial(self._http.post, wire.ROWS, {"rows": part}, self._timeout))
            answers += _checked(told, len(part), self._http.url)
        return answers

    def close(self) -> None:
        """Hang up."""
        self._http.hang_up()

    def _ask_about(self) -> About:
        told = self._try(lambda: self._http.get(wire.ABOUT, self._timeout))
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
                if failures >= self._backoff.tries or not passes(error):
                    raise RemoteError(self._said(error)) from None
                wait = self._backoff.wait(failures, jitter(failures))
            threading.Event().wait(wait)

    def _said(self, error: HTTPError) -> str:
        """Return what went wrong, and what to do about it."""
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
    known = isinstance(answer, dict) and answer.get("error") in wire.ERRORS
    return known and isinstance(answer.get("message"), str)


def _read_about(told: Any) -> About:
    if told["protocol"] != wire.PROTOCOL:
        raise ValueError(f"its protocol is {told['protocol']!r}, ours {wire.PROTOCOL}")
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
